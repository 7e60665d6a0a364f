import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from dsh_files.window import CutLine, LineWindow


def window_over(*pieces, first=1, limit_lines=100, limit_bytes=10_000, limit_characters=100):
    window = LineWindow(
        first, limit_lines=limit_lines, limit_bytes=limit_bytes, limit_characters=limit_characters
    )
    for piece in pieces:
        window.feed(piece)
    window.finish()
    return window


@given(
    st.lists(st.text(alphabet="aé\r日", max_size=8), max_size=30),
    st.booleans(),
    st.integers(1, 35),
    st.integers(1, 35),
    st.integers(1, 9),
)
def test_however_the_bytes_are_cut_the_lines_are_those_of_the_text(
    texts, ends_with_newline, first, limit, step
):
    data = "\n".join(texts).encode() + b"\n" * ends_with_newline
    pieces = [data[start : start + step] for start in range(0, len(data), step)]
    window = window_over(*pieces, first=first, limit_lines=limit)
    lines = data.decode().split("\n")
    if lines[-1] == "":
        lines.pop()
    shown = [
        f"{number}: {line.removesuffix(chr(13))}" for number, line in enumerate(lines, start=1)
    ]
    assert window.total == len(lines)
    assert window.lines == shown[first - 1 : first - 1 + limit]
    assert window.ends_with_newline == (data[-1:] in (b"", b"\n"))


def test_the_byte_limit_stops_before_the_line_that_does_not_fit():
    window = window_over(b"aaaa\nbbbb\ncccc\n", limit_bytes=16)
    assert window.lines == ["1: aaaa", "2: bbbb"]
    assert window.is_full
    assert window.total == 3


def test_one_line_is_kept_however_small_the_byte_limit():
    assert window_over(b"aaaa\nb\n", limit_bytes=1).lines == ["1: aaaa"]


def test_a_long_line_is_cut_at_characters_and_its_place_is_known():
    data = b"short\n" + "é".encode() * 150 + b"\nafter\n"
    window = window_over(data[:100], data[100:])
    assert window.lines[1] == f"2: {'é' * 100}… [cut: the line has 300 bytes]"
    assert window.lines[2] == "3: after"
    assert window.cut == [CutLine(2, 6, 300)]


def test_bytes_that_are_not_utf8_are_shown_as_replacement_and_noted():
    window = window_over(b"caf\xe9\nok\n")
    assert window.lines == ["1: caf\ufffd", "2: ok"]
    assert window.has_other_bytes
    assert not window_over("\ufffd\n".encode()).has_other_bytes


def test_a_nul_byte_is_never_shown_as_such():
    window = window_over(b"a\0b\n")
    assert window.lines == ["1: a␀b"]
    assert window.has_nul


def test_memory_does_not_grow_with_the_line():
    piece = b"x" * 65_536
    window = LineWindow(1, limit_lines=10, limit_bytes=50_000, limit_characters=2_000)
    tracemalloc.start()
    for _ in range(2_000):
        window.feed(piece)
    window.finish()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert window.total == 1
    assert peak < 1_000_000

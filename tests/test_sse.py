import json
import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dsh_core.adapters.sse import SseDecoder


def decode(*pieces: bytes) -> list[bytes]:
    decoder = SseDecoder()
    found = [payload for piece in pieces for payload in decoder.feed(piece)]
    return found + decoder.finish()


def reference(stream: bytes) -> list[bytes]:
    """The interpretation of the standard, line by line, over a whole stream."""
    lines = re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))
    found: list[bytes] = []
    data: list[bytes] = []
    for line in lines[:-1]:
        if not line:
            if data:
                found.append(b"\n".join(data))
            data = []
        else:
            data += data_of(line)
    data += data_of(lines[-1])
    last = b"\n".join(data)
    try:
        is_whole = isinstance(json.loads(last), dict)
    except ValueError:
        is_whole = False
    return [*found, last] if is_whole else found


def data_of(line: bytes) -> list[bytes]:
    name, _, value = line.partition(b":")
    if name != b"data":
        return []
    return [value[1:] if value[:1] == b" " else value]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\n\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"\n\n\ndata: a\n\n", [b"a"]),
        (b": ping\n\n:\n\ndata: a\n:x\n: y\ndata: b\n\n", [b"a\nb"]),
        (b"event: x\nid: 7\nretry: 10\ndata: a\n\n", [b"a"]),
        (b"event: x\n\n", []),
        (b"database: a\n\n data: b\n\nDATA: c\n\n", []),
        (b"data\n\ndata\ndata\n\ndata:", [b"", b"\n"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [b"b"]),
        (b"data: \xef\xbb\xbf\n\n", [b"\xef\xbb\xbf"]),
        (
            "data: a\u2028b\u2029c\u0085d\x0b\x0c\x1c\x1d\x1e\n\n".encode(),
            ["a\u2028b\u2029c\u0085d\x0b\x0c\x1c\x1d\x1e".encode()],
        ),
        (b"", []),
        (b"\xef", []),
    ],
)
def test_a_stream_is_cut_as_the_standard_says(stream: bytes, expected: list[bytes]) -> None:
    assert decode(stream) == expected == reference(stream)
    assert decode(*[stream[i : i + 1] for i in range(len(stream))]) == expected


def test_an_event_comes_out_with_the_bytes_that_complete_it() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\ndata: b") == [b"a"]
    assert decoder.feed(b"\n") == []
    assert decoder.feed(b"\n") == [b"b"]


def test_an_event_that_ends_with_cr_does_not_wait_for_a_possible_lf() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\r\r") == [b"a"]
    assert decoder.feed(b"\ndata: b\r\n\r") == [b"b"]
    assert decoder.feed(b"\n") == []


def test_a_last_event_without_its_blank_line_counts_if_it_is_whole_json() -> None:
    assert decode(b'data: {"a": 1}') == [b'{"a": 1}']
    assert decode(b'data: {"a": 1}\n') == [b'{"a": 1}']
    assert decode(b'data: {"a":\r\ndata: 1}\r\n') == [b'{"a":\n1}']


@pytest.mark.parametrize("rest", [b'data: {"a": 1', b"data: 12", b"data: [DO", b"dat", b'{"a": 1}'])
def test_a_last_event_that_may_be_cut_is_dropped(rest: bytes) -> None:
    assert decode(b"data: x\n\n" + rest) == [b"x"]


def test_what_was_delivered_at_the_end_is_not_delivered_again() -> None:
    decoder = SseDecoder()
    decoder.feed(b'data: {"a": 1}')
    assert decoder.finish() == [b'{"a": 1}']
    assert decoder.finish() == []


def test_a_code_point_split_over_two_reads_stays_whole() -> None:
    text = "春眠暁 🦊 naïve"
    stream = f'data: {{"t": "{text}"}}\n\n'.encode()
    for size in range(1, 8):
        (payload,) = decode(*[stream[i : i + size] for i in range(0, len(stream), size)])
        assert json.loads(payload)["t"] == text


def test_an_event_of_a_megabyte_in_small_pieces_takes_linear_time() -> None:
    line = b"data: " + b"x" * 57 + b"\n"
    decoder = SseDecoder()
    for _ in range(16384):
        assert decoder.feed(line) == []
    assert len(decoder._held) == 16384
    (payload,) = decoder.feed(b"\n")
    assert len(payload) == 16384 * 58 - 1


PIECES = st.sampled_from(
    [
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"data: ",
        b"data:",
        b"data",
        b":",
        b" ",
        b": c",
        b"event: e",
        b'{"a":1}',
        b"{",
        b"}",
        b"[DONE]",
        b"x",
        "é🦊\u2028".encode(),
        b"\xef\xbb\xbf",
        b"\xef",
    ]
)
STREAMS = st.lists(PIECES, max_size=40).map(b"".join)


@given(STREAMS, st.lists(st.integers(0, 120), max_size=12))
@example(b"data: a\r\n\r\ndata: b\r\n\r\n", [8, 9, 10, 11])
@example(b"\xef\xbb\xbfdata: a\n\n", [1, 2, 3])
@example(b"data: a\r\r\ndata: b\n\n", [9, 10])
def test_the_events_do_not_depend_on_the_cuts(stream: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    assert decode(*pieces) == reference(stream)

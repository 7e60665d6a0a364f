"""Large output goes to a private file; what stays inline is never larger than the limit."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import signal
import stat
import tempfile
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from generated import few
from hypothesis import given
from hypothesis import strategies as st
from loop_stage import bounded as in_time
from loop_stage import calls, stage

from dsh_core import Tool, ToolOutput
from dsh_core.content import Image, Text, text_of
from dsh_core.events import ToolResultEvent
from dsh_core.tools.spill import SpillFolder, bounded, preview

NOTICE = re.compile(r"\n\n\[… (\d+) bytes left out; the whole output is in (.+) …\]\n\n")


def spilled(text: str, limit_bytes: int, folder: Path) -> ToolOutput:
    return bounded(ToolOutput.of(text), "bash", limit_bytes, SpillFolder(folder).save)


def test_output_within_the_limit_is_left_alone(tmp_path: Path) -> None:
    for text in ("", "short", "x" * 200, "é" * 100):
        output = ToolOutput.of(text)

        assert bounded(output, "bash", 200, SpillFolder(tmp_path).save) is output
    assert list(tmp_path.iterdir()) == []


def test_larger_output_is_head_notice_and_tail_and_a_file(tmp_path: Path) -> None:
    text = "HEAD" + "x" * 10_000 + "TAIL"
    output = spilled(text, 500, tmp_path)

    found = NOTICE.search(output.text)
    assert found is not None
    assert output.text.startswith("HEAD")
    assert output.text.endswith("TAIL")
    assert Path(found[2]).read_text() == text
    shown = len(NOTICE.sub("", output.text).encode())
    assert int(found[1]) + shown == len(text)
    assert dict(output.meta or {}) == {"spilled_to": found[2], "size_bytes": len(text)}


@few
@given(
    st.text(st.sampled_from("aé漢😀\n\u0301"), min_size=100, max_size=400),
    st.integers(80, 400),
)
def test_what_is_shown_fits_the_limit_and_cuts_no_character(text: str, limit_bytes: int) -> None:
    data = text.encode()
    limit_bytes = min(limit_bytes, len(data) - 1)
    shown = preview(data, limit_bytes, "the whole output is in /f")

    assert len(shown.encode()) <= limit_bytes
    head, _, tail = shown.partition("\n\n[… ")
    tail = NOTICE.split("\n\n[… " + tail)[-1]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert "\ufffd" not in shown


@pytest.mark.parametrize("limit_bytes", [1, 20, 60])
def test_a_limit_too_small_for_the_notice_keeps_the_head(limit_bytes: int, tmp_path: Path) -> None:
    output = spilled("x" * 1_000, limit_bytes, tmp_path)

    assert output.text == "x" * limit_bytes
    assert Path(str((output.meta or {})["spilled_to"])).read_text() == "x" * 1_000


def test_what_cannot_be_saved_is_cut_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    output = spilled("HEAD" + "x" * 1_000 + "TAIL", 300, tmp_path / "missing")

    assert len(output.text.encode()) <= 300
    assert (output.text[:4], output.text[-4:]) == ("HEAD", "TAIL")
    assert "bytes left out; they are lost, saving them failed: No such file" in output.text
    assert dict(output.meta or {}) == {"size_bytes": 1_008}
    assert "output of bash is cut, the rest cannot be saved" in caplog.text


def test_a_full_disk_leaves_no_half_file(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path)
    folder.path()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        output = bounded(ToolOutput.of("x" * 1_000_000), "bash", 1_000, folder.save)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)

    assert "saving them failed: File too large" in output.text
    assert list(folder.path().iterdir()) == []


def test_only_the_text_is_spilled(tmp_path: Path) -> None:
    image = Image("image/png", "A" * 1_000)
    output = ToolOutput(
        (Text("x" * 600), image, Text("y" * 600)),
        is_error=True,
        code="EXIT_1",
        meta={"exit_code": 1},
        ends_turn=True,
    )
    result = bounded(output, "bash", 500, SpillFolder(tmp_path).save)

    assert (result.is_error, result.code, result.ends_turn) == (True, "EXIT_1", True)
    assert result.content[1:] == (image,)
    assert dict(result.meta or {})["exit_code"] == 1
    assert (result.text[0], result.text[-1]) == ("x", "y")


# ------------------------------------------------------------------------------------ the folder


def test_the_folder_and_its_files_are_private(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path)
    assert folder.existing is None

    path = folder.save("a/../b c", "text é\r\n")

    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.parent == folder.existing == folder.path()
    assert path.read_bytes() == "text é\r\n".encode()
    assert re.fullmatch(r"a____b_c-\w{8}\.txt", path.name)
    assert folder.save("a", "x") != folder.save("a", "x")


def test_a_removed_folder_is_made_again(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path)
    folder.save("a", "x")
    folder.remove()
    folder.remove()
    assert list(tmp_path.iterdir()) == []

    folder.save("a", "x")
    assert len(list(tmp_path.iterdir())) == 1


def dead_folder(parent: Path, name: str = "dsh-output-dead") -> Path:
    """What a killed harness leaves: nobody holds a lock on it."""
    folder = parent / name
    folder.mkdir(mode=0o700)
    (folder / "bash-1.txt").write_text("old")
    return folder


def test_the_folder_of_a_dead_harness_is_swept_a_live_one_is_not(tmp_path: Path) -> None:
    alive, sweeping = SpillFolder(tmp_path), SpillFolder(tmp_path)
    kept = alive.save("a", "x")
    dead, other = dead_folder(tmp_path), dead_folder(tmp_path, "somebody-elses")

    sweeping.sweep()

    assert kept.exists()
    assert other.exists()
    assert not dead.exists()
    alive.remove()
    assert list(tmp_path.iterdir()) == [other]


def test_a_sweep_follows_no_link_and_minds_no_file(tmp_path: Path) -> None:
    precious = dead_folder(tmp_path, "precious")
    (tmp_path / "dsh-output-link").symlink_to(precious)
    (tmp_path / "dsh-output-file").write_text("x")

    SpillFolder(tmp_path).sweep()

    assert (precious / "bash-1.txt").exists()
    assert (tmp_path / "dsh-output-file").exists()


def test_a_folder_that_a_sweep_found_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def swept_twice(*arguments: Any, **options: Any) -> str:
        made.append(mkdtemp(*arguments, **options))
        if len(made) == 1:
            SpillFolder(tmp_path).sweep()
        if len(made) == 2:
            held.append(os.open(made[1], os.O_RDONLY))
            fcntl.flock(held[0], fcntl.LOCK_EX)
        return made[-1]

    held: list[int] = []
    monkeypatch.setattr(tempfile, "mkdtemp", swept_twice)
    path = SpillFolder(tmp_path).save("a", "x")
    os.close(held[0])

    assert path.parent == Path(made[2])
    assert path.read_text() == "x"


# ------------------------------------------------------------------------------------ in a turn


def talker(text: str, **options: Any) -> Tool:
    return Tool("talks", "", lambda: text, **options)


async def test_a_huge_result_reaches_the_model_bounded_and_whole_in_a_file() -> None:
    """Case 047: three million characters."""
    text = "HEAD-MARK" + "x" * 3_000_000 + "TAIL-MARK"
    async with stage(calls(("talks", "{}")), tools=(talker(text),)) as s:
        await in_time(s.agent.run("go"))

        (result,) = s.logged(ToolResultEvent)
        shown = text_of(result.content)
        found = NOTICE.search(shown)
        assert found is not None
        assert len(shown.encode()) <= 50_000
        assert (shown[:9], shown[-9:]) == ("HEAD-MARK", "TAIL-MARK")
        path = Path(found[2])
        assert path.read_text() == text
        assert s.harness.readable_roots() == (path.parent,)
    assert not path.exists()


@pytest.mark.parametrize(("limit", "is_spilled"), [(None, True), (10_000, False), (400, True)])
async def test_a_tool_may_have_a_limit_of_its_own(limit: int | None, is_spilled: bool) -> None:
    tool = talker("x" * 5_000, inline_limit_bytes=limit)
    async with stage(calls(("talks", "{}")), tools=(tool,), inline_limit_bytes=1_000) as s:
        await in_time(s.agent.run("go"))

        (result,) = s.logged(ToolResultEvent)
        assert (result.meta is not None) is is_spilled


async def test_a_result_that_cannot_be_saved_is_cut_and_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with stage(calls(("talks", "{}")), tools=(talker("x" * 60_000),)) as s:
        monkeypatch.setattr(s.harness, "spill", SpillFolder(tmp_path / "missing"))
        await in_time(s.agent.run("go"))

        (result,) = s.logged(ToolResultEvent)
        assert len(text_of(result.content)) <= 50_000
        assert not result.is_error

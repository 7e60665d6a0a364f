"""The main job: `make demo`, through the installed console script."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from program import Shell

ROOT = Path(__file__).resolve().parent.parent


def test_the_demo_fixes_the_bug_and_leaves_the_example_alone(dsh: Shell) -> None:
    before = {p: p.read_bytes() for p in (ROOT / "examples").rglob("*.py")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/demo.py")],
        env=dsh.environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "+            result[-1] = Interval(result[-1].start, max(" in done.stdout
    assert "6 passed" in done.stdout
    for words in ("→ bash", "→ grep", "→ read", "→ edit"):
        assert words in done.stderr
    assert {p: p.read_bytes() for p in before} == before


def test_the_example_really_has_a_failing_test(tmp_path: Path) -> None:
    work = tmp_path / "fix-a-bug"
    shutil.copytree(ROOT / "examples/fix-a-bug", work)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=work,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert "3 failed, 3 passed" in done.stdout


def test_the_demo_notices_when_the_agent_does_something_else(dsh: Shell) -> None:
    shutil.copytree(ROOT / "examples/fix-a-bug", dsh.work / "copy")
    dsh.work = dsh.work / "copy"
    replies = dsh.work / "replies.yaml"
    replies.write_text(replies.read_text().replace("max(result[-1].end, interval.end)", "0"))
    dsh.env["PATH"] = f"{Path(sys.executable).parent}:{dsh.environment()['PATH']}"
    done = dsh(
        "run", "-c", "dsh.yaml", "-a", "offline", "--yes", "There is a failing test. Fix it."
    )

    assert done.returncode == 1
    assert "6 passed" in done.stderr
    assert "SCRIPT_EXPECTATION" in done.stderr

"""`make demo`: an agent finds and fixes a bug in a copy of `examples/fix-a-bug/`.

With DEEPSEEK_API_KEY set the real model does it; without, replies from a file do.
"""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent / "fix-a-bug"
PROMPT = "There is a failing test in this package. Find the bug and fix it."


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="dsh-demo-") as folder:
        work = Path(folder) / "fix-a-bug"
        shutil.copytree(HERE, work, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
        return demo(work)


def demo(work: Path) -> int:
    tools = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"}
    agent = "coder" if os.environ.get("DEEPSEEK_API_KEY", "").strip() else "offline"
    say(f"# a copy of examples/fix-a-bug in {work}; agent: {agent}")
    run = [str(tools / "dsh"), "run", "-c", "dsh.yaml", "-a", agent, "--yes", PROMPT]
    code = subprocess.run(run, cwd=work, env=env, stdin=subprocess.DEVNULL).returncode
    if code != 0:
        say(f"# dsh run ended with exit code {code}")
        return code
    say("\n# what changed")
    show_changes(work)
    say("# the tests now")
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(tests, cwd=work, env=env).returncode


def show_changes(work: Path) -> None:
    for before in sorted(HERE.rglob("*.py")):
        name = before.relative_to(HERE).as_posix()
        old = before.read_text(encoding="utf-8").splitlines(keepends=True)
        new = (work / name).read_text(encoding="utf-8").splitlines(keepends=True)
        sys.stdout.writelines(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))
    sys.stdout.flush()


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""Running the installed `dsh` as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

DSH = Path(sys.executable).parent / "dsh"


@dataclass
class Shell:
    """Runs the installed `dsh` in a folder and a home of its own, without keys or a terminal."""

    work: Path
    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
        own = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / "config")}
        own |= {"XDG_STATE_HOME": str(self.home / "state"), "PYTHONWARNINGS": "error"}
        return {**kept, **own, **self.env}

    def __call__(
        self, *arguments: str, stdin: bytes | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        return self._finished([str(DSH), *arguments], stdin, timeout)

    def script(self, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a line of bash in which `dsh` is the program and `"$@"` the arguments."""
        line = f'dsh() {{ "{DSH}" "$@"; }}; {text}'
        return self._finished(["bash", "-o", "pipefail", "-c", line, "bash", *arguments], b"", 60)

    def _finished(
        self, command: list[str], stdin: bytes | None, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=self.work,
            env=self.environment(),
            input=stdin if stdin is not None else b"",
            capture_output=True,
            timeout=timeout,
        )
        return subprocess.CompletedProcess(
            done.args,
            done.returncode,
            done.stdout.decode("utf-8", "replace"),
            done.stderr.decode("utf-8", "replace"),
        )

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(DSH), *arguments],
            cwd=self.work,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def write(self, name: str, text: str) -> Path:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

"""Whether a backend holds: escapes are attempted from inside, for real, and must all fail."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dsh_core import Command
from dsh_sandbox import escapes
from dsh_sandbox.backend import Backend, Bench
from dsh_sandbox.zone import Name, Zone, resolved

_SECONDS = 20
"""The probe takes a tenth of a second; a machine that is busy with tests may take much longer."""

_PROTECTED = ".git/hooks"


@dataclass(frozen=True, slots=True)
class Findings:
    """What the probe saw: `problem` where no command ran at all, else which escapes succeeded."""

    problem: str = ""
    escaped: tuple[str, ...] = ()


def probe(backend: Backend, *, python: str) -> Findings:
    """Attempt every escape from a sandbox without network, in a scratch folder. Blocks."""
    with tempfile.TemporaryDirectory(prefix="dsh-probe-") as name, _targets() as targets:
        scratch = resolved(Path(name))
        root = scratch / "workspace"
        (root / _PROTECTED).mkdir(parents=True)
        outside = scratch / "outside"
        outside.write_text("outside\n")
        zone = Zone(
            "workspace-write",
            network=False,
            unix_sockets=False,
            writable=(root,),
            protected=(Name(root, root / _PROTECTED, is_folder=True),),
            hidden=(),
            visible=(scratch,),  # else the attempts would meet an empty folder, and prove nothing
        )
        argv = (python, "-I", "-S", "-c", Path(escapes.__file__).read_text(encoding="utf-8"))
        task = json.dumps({"outside": str(outside), "pid": os.getpid(), **targets})
        command = Command((*argv, task), root, {"PATH": os.environ.get("PATH", os.defpath)})
        bench = Bench(scratch / "bench", scratch / "own", Path(__file__).with_name("launch.py"))
        bench.folder.mkdir()
        bench.own.mkdir()
        protection = backend.protect(zone)
        try:
            told = _run(backend.wrap(command, zone, protection, bench))
        finally:
            protection.end()
        return _findings(told, root, outside)


def _run(command: Command) -> subprocess.CompletedProcess[str] | str:
    try:
        return subprocess.run(
            command.argv,
            cwd=command.cwd,
            env=dict(command.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it hung for {_SECONDS} s"
    except OSError as error:
        return error.strerror or str(error)


def _findings(told: subprocess.CompletedProcess[str] | str, root: Path, outside: Path) -> Findings:
    if isinstance(told, str):
        return Findings(problem=told)
    if told.returncode != 0 or not (root / escapes.PROOF).exists():
        said = told.stderr.strip().splitlines()
        return Findings(problem=said[-1] if said else f"exit code {told.returncode}")
    undone = (escapes.PLANTING, escapes.MOVING)
    escaped = [name for name in json.loads(told.stdout) if name not in undone]
    if not outside.exists() or outside.read_text() != "outside\n":
        escaped.append("changing a file outside")
    if (root / _PROTECTED / escapes.PLANTED).exists():
        escaped.append(escapes.PLANTING)
    return Findings(escaped=tuple(dict.fromkeys(escaped)))


@contextlib.contextmanager
def _targets() -> Iterator[dict[str, object]]:
    """Listen where a command could try to connect: a closed port would refuse anybody."""
    with tempfile.TemporaryDirectory(prefix="dsh-") as folder, contextlib.ExitStack() as stack:
        path, abstract = f"{folder}/socket", f"dsh-probe-{os.getpid()}-{os.urandom(4).hex()}"
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(path)
        hidden = stack.enter_context(socket.socket(socket.AF_UNIX))
        hidden.bind(f"\0{abstract}")
        tcp = stack.enter_context(socket.socket(socket.AF_INET))
        tcp.bind(("127.0.0.1", 0))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        for each in (unix, hidden, tcp):
            each.listen()
        yield {
            "unix": path,
            "abstract": abstract,
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
        }

"""What only a process of its own can show: bounded memory, and a locale that knows only ASCII."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import asyncio, json, os, resource, sys, threading
from pathlib import Path
from types import SimpleNamespace

from dsh_core.agents import Stash
from dsh_core.execution import system_bytes
from dsh_core.tools import ToolContext
from dsh_shell.settings import Settings
from dsh_shell.tools import ShellTools


async def ask(spec, answer, **arguments):
    return await answer(**arguments)


async def main(command, cwd):
    if limit_kib := int(os.environ.get("LIMIT_KIB", 0)):
        resource.setrlimit(resource.RLIMIT_AS, (limit_kib * 1024,) * 2)
    tools = ShellTools(Settings(spill_limit_bytes=1_000_000))
    bash = tools.build(lambda value: False)[0]
    agent = SimpleNamespace(
        id="s", cwd=cwd, stash=Stash(), hooks=SimpleNamespace(waterfall=ask)
    )
    spill = cwd / "spill"
    os.mkdir(system_bytes(str(spill)))
    context = ToolContext(agent, cwd, None, (), lambda: spill, lambda text: None, threading.Event())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output = await bash.function(command=command, timeout=60, ctx=context)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    await tools.close()
    result = {"text": output.text, "meta": output.meta, "grown_kib": grown_kib}
    sys.stdout.write(json.dumps(result))


# As a configuration file has it, which is not as sys.argv has it in an ASCII locale.
command, cwd = (os.fsencode(argument).decode() for argument in sys.argv[1:])
asyncio.run(main(command, Path(cwd)))
"""


def run_apart(command: str, cwd: Path, **environment: str) -> dict[str, Any]:
    """Run a command through the tool in a process of its own, and return what came of it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, command, str(cwd)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_gigabytes_of_output_take_no_memory_and_the_end_is_kept(tmp_path: Path) -> None:
    result = run_apart("timeout 3 yes abcdefghij; echo rc=$?", tmp_path, LIMIT_KIB="2000000")
    assert result["text"].startswith("abcdefghij\n")
    assert result["text"].endswith("\nabcdefghij\nrc=124\n")
    assert len(result["text"]) < 66_000
    assert result["meta"]["exit_code"] == 0
    assert result["grown_kib"] < 32 * 1024
    (path,) = (tmp_path / "spill").iterdir()
    assert path.stat().st_size == 1_000_000


def test_output_without_line_ends_takes_no_memory(tmp_path: Path) -> None:
    result = run_apart("timeout 1 cat /dev/zero; echo rc=$?", tmp_path, LIMIT_KIB="2000000")
    assert result["text"].startswith(r"\x00\x00")
    assert result["text"].endswith("\\x00rc=124\n")
    assert result["grown_kib"] < 32 * 1024


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_text_survives_a_locale_that_cannot_say_it(tmp_path: Path, locale: str) -> None:
    cwd = tmp_path / "北京"
    cwd.mkdir()
    result = run_apart(
        "echo '✓ 北京 🌍'; pwd; echo $GREETING; ls >&2; cd /; seq 100000 | tail -n 30000",
        cwd,
        GREETING="héllo",
        LC_ALL=locale,
        LANG=locale,
        PYTHONUTF8="0",
        PYTHONCOERCECLOCALE="0",
        PYTHONIOENCODING="ascii",
    )
    assert result["text"].startswith(f"✓ 北京 🌍\n{cwd}\nhéllo\n")
    assert "[stderr]\nspill" in result["text"]
    assert f"the whole output is in {cwd}/spill/bash-stdout-" in result["text"]
    assert result["meta"]["cwd"] == str(cwd)

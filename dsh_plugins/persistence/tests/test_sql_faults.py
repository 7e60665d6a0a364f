"""SQLite on a disk that fails at any call: full, broken, or writing only half."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = Path(__file__).parent / "faults"
COMPILER = shutil.which("cc") or shutil.which("gcc")


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
@pytest.mark.skipif(sys.platform != "linux", reason="calls are caught as Linux allows it")
def test_a_fault_at_any_call_loses_nothing(tmp_path):
    library = tmp_path / "faults.so"
    build = [COMPILER, "-shared", "-fPIC", "-O1", "-o", library, FAULTS / "faults.c", "-ldl"]
    subprocess.run(build, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, FAULTS / "drive.py", tmp_path],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    healthy, *faults = map(json.loads, done.stdout.splitlines())

    assert healthy["failures"] == 0
    assert healthy["calls"] > 20, "the calls of SQLite were not caught"
    assert [one for one in faults if not one["whole"]] == []
    assert sum(one["failures"] > 0 for one in faults) > len(faults) / 4, "faults did no harm"

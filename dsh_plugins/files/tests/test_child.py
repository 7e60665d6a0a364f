import os
import signal
import sys
import threading
import time

import pytest

from dsh_core.errors import ToolError
from dsh_files.child import Child


@pytest.fixture
def start(workspace):
    folder = os.open(workspace, os.O_RDONLY)

    def start(program, **options):
        options = {
            "folder": folder,
            "path": str(workspace),
            "timeout_seconds": 30,
            "limit_bytes": None,
            "cancelled": threading.Event(),
            **options,
        }
        return Child([sys.executable, "-Ic", program], **options)

    yield start
    os.close(folder)


def test_records_are_split_whatever_the_pieces(start):
    program = "for piece in ['a', 'b\\0c', '\\0\\0d']: print(piece, end='', flush=True)"
    with start(program) as child:
        assert list(child.records(b"\0")) == [b"ab", b"c", b"", b"d"]
        assert child.finish() == (0, "")


def test_a_record_larger_than_a_pipe_is_one_record(start):
    with start("print('x' * 5_000_000)") as child:
        assert [len(record) for record in child.records(b"\n")] == [5_000_000]


def test_it_runs_in_the_folder_and_reads_nothing(start, workspace):
    with start("import os, sys; print(os.getcwd(), repr(sys.stdin.read()))") as child:
        assert list(child.records(b"\n")) == [f"{workspace} ''".encode()]


def test_standard_error_is_bounded_and_never_blocks(start):
    program = "import sys; sys.stderr.write('e' * 1_000_000); print('done'); sys.exit(2)"
    with start(program) as child:
        assert list(child.records(b"\n")) == [b"done"]
        code, errors = child.finish()
    assert code == 2
    assert len(errors) == 64 * 1024


@pytest.mark.parametrize("program", ["import time; time.sleep(60)", "while True: pass"])
def test_one_that_takes_too_long_is_stopped_and_gone(start, program):
    begin = time.monotonic()
    with start(program, timeout_seconds=0.3) as child:
        assert list(child.records(b"\n")) == []
        assert child.stopped == "time"
        pid = child._process.pid
    assert time.monotonic() - begin < 5
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_one_that_writes_too_much_is_stopped_without_the_unfinished_record(start):
    with start("while True: print('x' * 9)", limit_bytes=25) as child:
        assert list(child.records(b"\n")) == [b"x" * 9, b"x" * 9]
        assert child.stopped == "output"


def test_a_cancelled_one_is_stopped(start):
    cancelled = threading.Event()
    threading.Timer(0.3, cancelled.set).start()
    begin = time.monotonic()
    with (
        pytest.raises(ToolError, match="cancelled"),
        start("import time; time.sleep(60)", cancelled=cancelled) as child,
    ):
        list(child.records(b"\n"))
    assert time.monotonic() - begin < 5


def test_a_grandchild_does_not_live_on(start):
    program = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(p.pid, flush=True)\n"
        "time.sleep(60)"
    )
    with start(program, timeout_seconds=1) as child:
        (pid,) = child.records(b"\n")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{int(pid)}/stat") as file:
                if file.read().split(")")[1].split()[0] == "Z":
                    return
        except FileNotFoundError:
            return
    pytest.fail("the grandchild lives")


def test_one_that_closes_its_output_and_goes_on_is_stopped(start):
    program = "import os, time\nos.close(1)\nos.close(2)\ntime.sleep(60)"
    with start(program, timeout_seconds=1) as child:
        assert list(child.records(b"\n")) == []
        assert child.finish()[0] == -signal.SIGKILL
        assert child.stopped == "time"


def test_one_that_cannot_be_started_is_named(start):
    child = start("")
    child._argv = ["/no/such/rg"]
    with pytest.raises(ToolError, match="/no/such/rg cannot be started: No such file"), child:
        pass

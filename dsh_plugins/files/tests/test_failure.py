import errno
import os
import stat
import threading

import pytest

from dsh_core.errors import ToolError
from dsh_files.failure import explained, os_failure, refuse_unless_regular, shown, stop_if


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOENT, "FS_NOT_FOUND"),
        (errno.EACCES, "FS_PERMISSION_DENIED"),
        (errno.EROFS, "FS_PERMISSION_DENIED"),
        (errno.ENOSPC, "FS_NO_SPACE"),
        (errno.EBUSY, "FS_BUSY"),
        (errno.EIO, "FS_IO_ERROR"),
    ],
)
def test_an_os_error_becomes_words_about_the_path(number, code):
    error = os_failure(OSError(number, os.strerror(number)), "a.txt")
    assert error.code == code
    assert str(error).startswith("a.txt ")


def test_an_os_error_in_a_block_keeps_its_cause():
    with pytest.raises(ToolError) as caught, explained("a.txt"):
        os.stat("/not/there")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_a_failure_in_a_block_stays_itself():
    with pytest.raises(ToolError, match="own words"), explained("a.txt"):
        raise ToolError("own words", code="OWN")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("plain/日本.txt", "plain/日本.txt"),
        ("a\nb\x1b[31m", "a\\nb\\x1b[31m"),
        (os.fsdecode(b"\xff"), "\\udcff"),
        ("x" * 1_000, "x" * 200 + "…" + "x" * 200),
    ],
)
def test_any_path_is_shown_in_one_short_line(path, text):
    assert shown(path) == text


def test_an_unknown_kind_of_file_is_refused_too():
    status = os.stat_result((stat.S_IFMT(0o160000), *[0] * 9))
    with pytest.raises(ToolError, match="not a regular file"):
        refuse_unless_regular(status, "f")


def test_a_cancelled_call_stops():
    event = threading.Event()
    stop_if(event)
    event.set()
    with pytest.raises(ToolError, match="cancelled"):
        stop_if(event)

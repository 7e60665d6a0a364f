import errno
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from dsh_files import atomic
from dsh_files.observation import Version
from dsh_files.workspace import opened_folder


@pytest.fixture(params=["unnamed", "named"])
def staging(request, monkeypatch):
    """Both ways to stage a file; systems other than Linux have the second only."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    return request.param


def replace(path, content, **options):
    with opened_folder(path.parent) as folder:
        return atomic.replace(folder, path.name, content, path.stat(), **options)


def create(path, content, **options):
    with opened_folder(path.parent) as folder:
        return atomic.create(folder, path.name, content, **options)


def test_a_file_is_created_whole(staging, workspace, leftovers):
    status = create(workspace / "f", [b"one ", b"two"])
    assert Version.of(status) == Version.of((workspace / "f").stat())
    assert (workspace / "f").read_bytes() == b"one two"
    assert not leftovers(workspace)


def test_creating_never_replaces(staging, workspace, leftovers):
    (workspace / "f").write_text("theirs")
    with pytest.raises(FileExistsError):
        create(workspace / "f", [b"mine"])
    assert (workspace / "f").read_text() == "theirs"
    assert not leftovers(workspace)


def test_a_file_that_appears_while_the_content_is_written_is_not_replaced(staging, workspace):
    def content():
        yield b"mine"
        (workspace / "f").write_text("theirs")

    with pytest.raises(FileExistsError):
        create(workspace / "f", content())
    assert (workspace / "f").read_text() == "theirs"


def test_creating_does_not_follow_a_link(staging, workspace, tmp_path):
    (workspace / "f").symlink_to(tmp_path / "outside")
    with pytest.raises(FileExistsError):
        create(workspace / "f", [b"mine"])
    assert not (tmp_path / "outside").exists()


def test_replacing_keeps_mode_owner_and_attributes(staging, workspace, leftovers):
    path = workspace / "f"
    path.write_text("old")
    if os.geteuid() == 0:
        os.chown(path, 1234, 2345)
    path.chmod(0o751)
    with suppress(OSError):
        os.setxattr(path, "user.origin", b"here")
    attributes = os.listxattr(path)
    before = path.stat()
    status = replace(path, [b"new"])
    after = path.stat()
    assert path.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert os.listxattr(path) == attributes
    assert Version.of(status) == Version.of(after)
    assert not leftovers(workspace)


def test_a_replaced_file_of_another_owner_loses_set_id_bits(open_folder, as_nobody):
    path = open_folder / "f"
    path.write_text("old")
    path.chmod(0o6777)
    with as_nobody():
        replace(path, [b"new"])
    assert path.read_text() == "new"
    if os.geteuid() == 0:
        assert path.stat().st_uid != 0
        assert path.stat().st_mode & 0o7777 == 0o777


def test_a_file_that_changes_while_the_content_is_written_is_not_replaced(
    staging, workspace, leftovers
):
    path = workspace / "f"
    path.write_text("old")

    def content():
        yield b"mine"
        path.write_text("theirs")

    with pytest.raises(atomic.ChangedError):
        replace(path, content())
    assert path.read_text() == "theirs"
    assert not leftovers(workspace)


def test_a_file_that_vanishes_while_the_content_is_written_is_not_brought_back(staging, workspace):
    path = workspace / "f"
    path.write_text("old")

    def content():
        yield b"mine"
        path.unlink()

    with pytest.raises(atomic.ChangedError):
        replace(path, content())
    assert os.listdir(workspace) == []


def test_while_it_is_written_nobody_else_can_read_the_new_content(staging, workspace):
    path = workspace / "f"
    path.write_text("old")
    path.chmod(0o644)

    def content():
        yield b"secret"
        for name in os.listdir(workspace):
            if name != "f":
                assert (workspace / name).stat().st_mode & 0o777 == 0o600

    replace(path, content())
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_failure_leaves_the_old_content_and_no_temporary_file(staging, workspace, leftovers):
    path = workspace / "f"
    path.write_text("old")

    def content():
        yield b"half"
        raise OSError(errno.ENOSPC, "no space")

    for write in (replace, lambda path, content: create(workspace / "g", content)):
        with pytest.raises(OSError, match="no space"):
            write(path, content())
    assert path.read_text() == "old"
    assert os.listdir(workspace) == ["f"]


def test_a_full_disk_leaves_the_old_content(staging, workspace):
    """A real limit: RLIMIT_FSIZE makes write(2) fail in a child process."""
    (workspace / "f").write_text("old")
    program = (
        "import os, resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        f"if {staging == 'named'}: del os.O_TMPFILE\n"
        "from dsh_files import atomic\n"
        "folder = os.open(sys.argv[1], os.O_RDONLY)\n"
        "try:\n"
        "    atomic.replace(folder, 'f', [b'x' * 5000], os.stat('f', dir_fd=folder))\n"
        "except OSError as error:\n"
        "    print(error.errno)\n"
    )
    result = run(program, workspace)
    assert result.stdout.strip() == str(errno.EFBIG)
    assert os.listdir(workspace) == ["f"]
    assert (workspace / "f").read_text() == "old"


@pytest.mark.parametrize("is_named", [False, True])
def test_case_075_a_kill_in_mid_write_leaves_the_old_content_whole(workspace, new_hand, is_named):
    (workspace / "f").write_text("old")
    program = (
        "import os, sys, time\n"
        f"if {is_named}: del os.O_TMPFILE\n"
        "from dsh_files import atomic\n"
        "folder = os.open(sys.argv[1], os.O_RDONLY)\n"
        "def content():\n"
        "    yield b'x' * 1_000_000\n"
        "    print('half', flush=True)\n"
        "    time.sleep(60)\n"
        "atomic.replace(folder, 'f', content(), os.stat('f', dir_fd=folder))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, workspace],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
    assert (workspace / "f").read_text() == "old"
    assert len(os.listdir(workspace)) == 1 + is_named
    for engine in ("auto", "python"):  # a leftover is not in the way
        hand = new_hand(engine=engine)
        assert hand.glob("*") == "f"
        assert hand.grep("x") == "No matches found."


def test_without_hard_links_creating_is_still_exclusive(staging, workspace, monkeypatch):
    """FAT and some FUSE file systems have none; none can be mounted here, so link(2) is told no."""

    def refused(*args, **options):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    status = create(workspace / "f", iter([b"one ", b"two"]))
    assert Version.of(status) == Version.of((workspace / "f").stat())
    assert (workspace / "f").read_bytes() == b"one two"
    with pytest.raises(FileExistsError):
        create(workspace / "f", [b"mine"])
    assert os.listdir(workspace) == ["f"]


def test_what_is_asked_last_may_stop_everything(staging, workspace):
    (workspace / "f").write_text("old")

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace(workspace / "f", [b"new"], before_publishing=stop)
    with pytest.raises(KeyboardInterrupt):
        create(workspace / "g", [b"new"], before_publishing=stop)
    assert os.listdir(workspace) == ["f"]
    assert (workspace / "f").read_text() == "old"


def run(program, folder):
    return subprocess.run(
        [sys.executable, "-c", program, folder],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

import os

import pytest

from dsh_core.errors import ToolError
from dsh_files.workspace import Target, Workspace, opened_file, opened_folder, resolve


def code_of(function, *args):
    with pytest.raises(ToolError) as caught:
        function(*args)
    return caught.value.code


def test_relative_paths_are_relative_to_the_working_directory(workspace):
    assert resolve("a/../b.txt", workspace) == workspace / "b.txt"
    assert resolve(".", workspace) == workspace


def test_a_tilde_is_the_home_directory(workspace, monkeypatch):
    monkeypatch.setenv("HOME", str(workspace / "home"))
    assert resolve("~/notes.txt", workspace) == workspace / "home/notes.txt"
    assert resolve("./~/notes.txt", workspace) == workspace / "~/notes.txt"


def test_two_dots_after_a_link_go_up_from_where_the_link_leads(workspace):
    (workspace / "deep/er").mkdir(parents=True)
    (workspace / "link").symlink_to("deep/er")
    assert resolve("link/../x", workspace) == workspace / "deep/x"


@pytest.mark.parametrize("written", ["", "  ", "a\0b", "lone\ud800surrogate"])
def test_what_cannot_be_a_path_is_refused_by_name(workspace, written):
    assert code_of(resolve, written, workspace) == "FS_INVALID_PATH"


@pytest.mark.parametrize("written", ["/etc/passwd", "../x", "../ws-evil/x", "a/../../x", "~root/x"])
def test_a_path_outside_is_refused_and_the_setting_is_named(workspace, written):
    with pytest.raises(ToolError, match=r"plugins\.files\.allow") as caught:
        Workspace(workspace).readable(written)
    assert caught.value.code == "FS_OUTSIDE_WORKSPACE"


def test_a_link_is_judged_by_where_it_leads(workspace, tmp_path):
    (tmp_path / "secret").write_text("x")
    (workspace / "link").symlink_to("../secret")
    with pytest.raises(ToolError, match=r"leads to .*secret") as caught:
        Workspace(workspace).writable("link")
    assert caught.value.code == "FS_OUTSIDE_WORKSPACE"


def test_a_dangling_link_is_judged_by_where_it_would_lead(workspace):
    (workspace / "link").symlink_to("../not-there")
    assert code_of(Workspace(workspace).writable, "link") == "FS_OUTSIDE_WORKSPACE"


def test_the_working_directory_may_itself_be_reached_through_a_link(workspace, tmp_path):
    (tmp_path / "alias").symlink_to("ws")
    assert Workspace(tmp_path / "alias").readable("a").path == workspace / "a"


def test_allowed_folders_may_be_read_and_written(workspace, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    open_to = Workspace(workspace, allow=("~/notes", "../side"))
    assert open_to.writable("~/notes/a").path == tmp_path / "home/notes/a"
    assert open_to.writable("../side/a").path == tmp_path / "side/a"
    assert code_of(open_to.readable, "~/other") == "FS_OUTSIDE_WORKSPACE"


def test_the_root_allows_everything(workspace):
    assert Workspace(workspace, allow=("/",)).writable("/etc/hosts").path.is_absolute()


def test_readable_roots_may_be_read_only(workspace, spill):
    half_open = Workspace(workspace, readable_roots=(spill,))
    assert half_open.readable(str(spill / "a")).path == spill / "a"
    assert code_of(half_open.writable, str(spill / "a")) == "FS_OUTSIDE_WORKSPACE"


def test_paths_are_named_from_the_working_directory_where_they_lie_in_it(workspace, tmp_path):
    names = Workspace(workspace)
    assert names.name_of(workspace / "a/b.txt") == "a/b.txt"
    assert names.name_of(tmp_path / "c") == str(tmp_path / "c")


def test_opening_follows_no_link_that_was_put_in_the_way(workspace, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_text("secret")
    (workspace / "folder").mkdir()
    target = Workspace(workspace).readable("folder/f")
    (workspace / "folder").rmdir()
    (workspace / "folder").symlink_to("../outside")
    with pytest.raises(NotADirectoryError), opened_folder(target.path.parent):
        pass


def test_opening_refuses_a_file_that_became_a_link(workspace, tmp_path):
    (tmp_path / "secret").write_text("x")
    target = Target("f", workspace / "f")
    (workspace / "f").symlink_to("../secret")
    with (
        opened_folder(workspace) as folder,
        pytest.raises(ToolError, match="only regular files"),
        opened_file(folder, target),
    ):
        pass


def test_missing_folders_are_made_only_when_asked_for(workspace):
    with pytest.raises(FileNotFoundError), opened_folder(workspace / "a/b"):
        pass
    assert not (workspace / "a").exists()
    with opened_folder(workspace / "a/b", create=True) as folder:
        assert os.fstat(folder).st_ino == (workspace / "a/b").stat().st_ino


def test_descriptors_are_closed_after_failures(workspace):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(FileNotFoundError), opened_folder(workspace / "x/y/z"):
            pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_that_may_not_be_listed_can_be_passed_through(open_folder, as_nobody):
    (open_folder / "closed").mkdir()
    (open_folder / "closed/f").write_text("x")
    (open_folder / "closed/f").chmod(0o644)
    (open_folder / "closed").chmod(0o711)
    with (
        as_nobody(),
        opened_folder(open_folder / "closed") as folder,
        opened_file(folder, Target("f", open_folder / "closed/f")) as descriptor,
    ):
        assert os.read(descriptor, 9) == b"x"

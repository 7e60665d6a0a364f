"""Opening a folder in one step, and part by part where the kernel cannot."""

import os

import pytest

from dsh_files import beneath, workspace
from dsh_files.beneath import open_beneath
from dsh_files.workspace import FOLDER_FLAGS, opened_folder


@pytest.fixture
def root(tmp_path):
    (tmp_path / "in/side").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "in/link").symlink_to("side")
    descriptor = os.open(tmp_path / "in", FOLDER_FLAGS)
    yield descriptor
    os.close(descriptor)


def test_a_folder_below_is_opened(root, tmp_path):
    descriptor = open_beneath(root, "side", FOLDER_FLAGS)
    assert descriptor is not None
    try:
        assert os.fstat(descriptor).st_ino == (tmp_path / "in/side").stat().st_ino
        assert not os.get_inheritable(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("path", ["../out", "link", "side/../../out", "/tmp", "none"])
def test_what_leads_out_or_through_a_link_is_not(root, path):
    assert open_beneath(root, path, FOLDER_FLAGS) is None


@pytest.mark.parametrize("has_openat2", [True, False])
def test_both_ways_refuse_a_link_that_was_put_in_the_way(tmp_path, monkeypatch, has_openat2):
    (tmp_path / "real").mkdir()
    (tmp_path / "a").symlink_to("real")
    if not has_openat2:
        monkeypatch.setattr(beneath, "_library", lambda: None)
    with pytest.raises(NotADirectoryError), opened_folder(tmp_path / "a"):
        pass
    with opened_folder(tmp_path / "real") as folder:
        assert os.fstat(folder).st_ino == (tmp_path / "real").stat().st_ino
    assert workspace.open_beneath is open_beneath

"""What protects names: stand-ins, the guard, and the zone that says what is protected."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from conftest import Stage

from dsh_core import ToolError
from dsh_sandbox.guard import Guard
from dsh_sandbox.settings import Settings
from dsh_sandbox.shields import Shields
from dsh_sandbox.workshop import Workshop
from dsh_sandbox.zone import Name, zone_of


def names(root: Path, *wanted: str) -> list[Name]:
    return [Name(root, root / each.rstrip("/"), each.endswith("/")) for each in wanted]


# --------------------------------------------------------------------------------- stand-ins


def test_a_missing_name_gets_a_stand_in_while_it_is_needed(tmp_path: Path) -> None:
    shields = Shields(names(tmp_path, "dsh.yaml", ".dsh/"))
    assert shields.covers == ((tmp_path / "dsh.yaml", True), (tmp_path / ".dsh", True))
    assert (tmp_path / ".dsh").is_dir()
    assert (tmp_path / "dsh.yaml").read_bytes() == b""
    assert shields.end() == []
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_covered_and_stays(tmp_path: Path) -> None:
    (tmp_path / "dsh.yaml").write_text("")
    (tmp_path / ".dsh").mkdir(mode=0o555)
    shields = Shields(names(tmp_path, "dsh.yaml", ".dsh/"))
    assert shields.covers == ((tmp_path / "dsh.yaml", False), (tmp_path / ".dsh", False))
    shields.end()
    assert sorted(each.name for each in tmp_path.iterdir()) == [".dsh", "dsh.yaml"]


def test_the_first_missing_part_of_a_way_is_covered(tmp_path: Path) -> None:
    shields = Shields(names(tmp_path, ".git/hooks/", ".git/config"))
    assert shields.covers == ((tmp_path / ".git", True),)
    shields.end()
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    assert Shields(names(tmp_path, ".git/hooks/")).covers == ((tmp_path / ".git", False),)


def test_the_last_user_of_a_stand_in_removes_it(tmp_path: Path) -> None:
    first, second = (Shields(names(tmp_path, "dsh.yaml")) for _ in range(2))
    first.end()
    assert (tmp_path / "dsh.yaml").exists()
    second.end()
    assert not (tmp_path / "dsh.yaml").exists()


def test_a_stand_in_that_a_person_replaced_stays(tmp_path: Path) -> None:
    shields = Shields(names(tmp_path, "dsh.yaml"))
    (tmp_path / "dsh.yaml").unlink()
    (tmp_path / "dsh.yaml").write_text("agents: {}\n")
    shields.end()
    assert (tmp_path / "dsh.yaml").read_text() == "agents: {}\n"


def test_a_folder_that_root_made_read_only_on_the_way_to_the_root_is_no_stand_in(
    tmp_path: Path,
) -> None:
    root = tmp_path / "outer/workspace"
    root.mkdir(parents=True)
    (tmp_path / "outer").chmod(0o505)
    shields = Shields(names(root, "dsh.yaml"))
    assert shields.covers == ((root / "dsh.yaml", True),)
    shields.end()
    (tmp_path / "outer").chmod(0o755)


# --------------------------------------------------------------------------------- the guard


@pytest.mark.parametrize("before", ["absent", "file", "folder", "link"])
@pytest.mark.parametrize("after", ["absent", "file", "folder", "link", "fifo"])
def test_whatever_was_there_is_there_again(tmp_path: Path, before: str, after: str) -> None:
    root, path = tmp_path / "root", tmp_path / "root/name"
    root.mkdir()
    make(path, before, "old")
    guard = Guard(names(root, "name"))
    remove(path)
    make(path, after, "new")
    assert guard.end() == ([] if before == after == "absent" else [path])
    assert picture(path) == {"absent": None, "file": "old", "folder": {"in": "old"}}.get(
        before, "-> old"
    )


def make(path: Path, kind: str, text: str) -> None:
    if kind == "file":
        path.write_text(text)
    elif kind == "folder":
        path.mkdir()
        (path / "in").write_text(text)
    elif kind == "link":
        path.symlink_to(text)
    elif kind == "fifo":
        os.mkfifo(path)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        (path / "in").unlink()
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def picture(path: Path) -> Any:
    if path.is_symlink():
        return f"-> {os.readlink(path)}"
    if path.is_dir():
        return {each.name: picture(each) for each in path.iterdir()}
    return path.read_text() if path.exists() else None


def test_a_change_of_mode_is_a_change(tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.write_text("")
    hook.chmod(0o644)
    guard = Guard(names(tmp_path, "hook"))
    hook.chmod(0o755)
    assert guard.end() == [hook]
    assert hook.stat().st_mode & 0o777 == 0o644


def test_a_link_put_in_the_way_leads_nowhere(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/hooks/old").write_text("old")
    (outside / "hooks").mkdir(parents=True)
    (outside / "hooks/precious").write_text("precious")
    guard = Guard(names(root, ".git/hooks/"))
    (root / ".git").rename(root / "moved")
    (root / ".git").symlink_to(outside)
    guard.end()
    assert picture(outside) == {"hooks": {"precious": "precious"}}
    assert not os.path.lexists(root / ".git")


# ---------------------------------------------------------------------------------- the zone


def test_a_workspace_that_holds_the_home_folder_is_not_writable(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/project").mkdir(parents=True)
    for root in (tmp_path, tmp_path / "home"):
        zone = zone_of(root, Settings())
        assert zone.writable == ()
        assert "holds your home folder" in zone.reason
    assert zone_of(tmp_path / "home/project", Settings()).writable == (tmp_path / "home/project",)


def test_dsh_s_own_folder_is_protected_and_hidden_wherever_it_is(
    tmp_path: Path, monkeypatch: Any
) -> None:
    own = tmp_path / "workspace/own"
    own.mkdir(parents=True)
    monkeypatch.setenv("DSH_USER_DIR", str(own))
    zone = zone_of(tmp_path / "workspace", Settings(hidden=(), protected=()))
    assert [name.path for name in zone.protected] == [own]
    assert zone.hidden == (own,)


async def test_the_environment_of_dsh_cannot_be_changed(make_stage: Any, monkeypatch: Any) -> None:
    stage: Stage = make_stage()
    if stage.executor._backend.name != "bubblewrap":
        pytest.skip("Landlock knows no exceptions")
    environment = stage.root / "parent/.venv"
    environment.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(environment))
    stage = make_stage()
    await stage.run("echo evil > parent/.venv/evil.pth; mv parent other; mkdir -p parent/.venv")
    assert list(environment.iterdir()) == []
    assert not (stage.root / "other").exists()


async def test_files_of_the_sandbox_are_never_where_commands_write(
    make_stage: Any, monkeypatch: Any
) -> None:
    stage: Stage = make_stage()
    monkeypatch.setattr(tempfile, "tempdir", str(stage.root))
    assert (await stage.run("echo works"))[1] == "works\n"
    assert list(stage.root.iterdir()) == []


def test_where_no_place_is_safe_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="every folder for temporary files is writable"):
        Workshop().new_bench((Path("/"),))


async def test_a_sandbox_that_cannot_be_prepared_starts_nothing(make_stage: Any) -> None:
    stage: Stage = make_stage()
    stage.executor._zone = zone_of(stage.root, Settings(protected=("x" * 300,)))
    if stage.executor._backend.name != "bubblewrap":
        pytest.skip("only bubblewrap makes stand-ins")
    with pytest.raises(ToolError, match="the sandbox cannot be prepared: File name too long"):
        await stage.run("true")


async def test_a_program_named_by_a_path_is_looked_for_where_the_command_runs(
    make_stage: Any,
) -> None:
    from dsh_core import Command

    stage: Stage = make_stage()
    script = stage.root / "script"
    script.write_text("#!/bin/sh\necho ran\n")
    script.chmod(0o755)
    command = Command(("./script",), stage.root, {"PATH": os.defpath})
    process = await stage.executor.start(command)
    assert await process.stdout.read() == b"ran\n"
    await process.stop(grace_seconds=0)


async def test_a_command_inherits_no_descriptor(make_stage: Any) -> None:
    stage: Stage = make_stage()
    _, out, _ = await stage.run("ls /proc/self/fd; ls -l /proc/self/fd | grep -c dsh-sandbox")
    assert out.split() == ["0", "1", "2", "3", "0"]  # 3 is the folder that ls reads

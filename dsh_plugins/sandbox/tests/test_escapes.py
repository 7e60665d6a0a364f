"""Nothing gets out: as root and as an ordinary user, under each backend."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKENDS, as_user, furnish, problem_of, user_named

from dsh_sandbox import escapes

OPEN = "DSH_TEST_WITHOUT_SANDBOX"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no backend for it")
def test_some_backend_works_here() -> None:
    """Else everything below is skipped, and nothing would say so."""
    problems = {backend: problem_of(backend, "me") for backend in BACKENDS}
    if all(problems.values()) and os.environ.get(OPEN):
        pytest.skip(f"{OPEN} is set, and nothing here works: {problems}")
    assert not all(problems.values()), f"set {OPEN}=1 to do without: {problems}"


ABSENT = (".dsh", "dsh.yaml", ".vscode", ".idea", ".mcp.json")


@pytest.mark.parametrize("user", ["me", "nobody"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_attempt_of_the_probe_succeeds(backend: str, user: str) -> None:
    user_named(user)
    found = as_user(user, {"backend": backend})
    if found["problem"]:
        pytest.skip(f"{backend} does not work here for {user}: {found['problem']}")
    assert found["escaped"] == []


def test_every_attempt_of_the_probe_succeeds_where_nothing_confines_it() -> None:
    """An attempt that cannot succeed would prove nothing."""
    found = as_user("me", {"backend": "unconfined"})
    assert found["problem"] == ""
    task = {"outside": "/o", "pid": 1, "unix": "/s", "abstract": "s", "tcp": 1, "udp": 1}
    wanted = set(escapes.attempts(task)) - {escapes.MOVING, "moving out", "linking in"}
    missed = wanted - {*found["escaped"]}
    # Yama and a container around the tests may forbid these by themselves.
    by_the_system = {"tracing", "writing through the first process"}
    by_root_only = {"mounting", "a setting of the kernel"}
    assert missed <= by_the_system | (by_root_only if os.geteuid() else set())


OUTSIDE = [
    "echo escaped > {outside}",
    "echo escaped >> {outside}",
    "ln -s {outside} link; echo escaped > link",
    "ln -s {folder} out; echo escaped > out/outside",
    "truncate -s 0 {outside}",
    "rm -f {outside}",
    "mv {outside} taken",
    "echo escaped > mine; mv -f mine {outside}",
    "ln {outside} hard; echo escaped > hard",
    "cp --preserve=all /bin/true {outside}",
    "echo escaped > /proc/self/root{outside}",
    "echo escaped > /proc/1/root{outside}",
    "echo escaped > /proc/$PPID/root{outside}",
    "mount -o remount,rw,bind / ; echo escaped > {outside}",
    "mount --bind {folder} . ; echo escaped > outside",
    "umount {root}; echo escaped > {outside}",
    "unshare -r sh -c 'mount -o remount,rw,bind /; echo escaped > {outside}'",
    "unshare -rm sh -c 'umount -l {root}; echo escaped > {outside}'",
    "nsenter -t 1 -m sh -c 'echo escaped > {outside}'",
    "chroot / sh -c 'echo escaped > {outside}'",
    "bwrap --bind / / sh -c 'echo escaped > {outside}'",
    "cd ..; echo escaped > outside",
    "cd / && exec 3> {outside}; echo escaped >&3",
    "mkdir {folder}-evil; echo escaped > {folder}/workspace-evil",
    "mknod disk b 8 0 && echo escaped > disk",
    "cat /dev/sda /dev/vda > disk && echo escaped > {outside}",
    "exec 3> /proc/sys/kernel/core_pattern && rm {outside} && echo 'a setting of the kernel'",
    "exec 3> /proc/sys/vm/swappiness && echo 'a setting of the kernel'",
    "exec 3> /proc/sysrq-trigger && echo 'a setting of the kernel'",
    "su -c 'echo escaped > {outside}'",
]


def test_nothing_outside_is_changed(place: Any) -> None:
    names = {"outside": place.outside, "folder": place.folder, "root": place.root}
    attempts = [f"({command.format(**names)})" for command in OUTSIDE]
    look = f'[ "$(cat {place.outside})" = outside ] || echo "changed by $n"'
    lines = [f"n={number}; {attempt}; {look}" for number, attempt in enumerate(attempts)]
    told = place.run("\n".join([*lines, "echo alive"]))
    assert told["stdout"] == "alive\n", told
    assert place.outside.read_text() == "outside\n"
    assert sorted(each.name for each in place.folder.iterdir()) == ["outside", "workspace"]
    assert not (place.root / "disk").exists() or not (place.root / "disk").stat().st_size


PROTECTED = [
    "echo '#!/bin/sh' > .git/hooks/post-commit",
    "echo evil >> .git/hooks/pre-commit",
    "rm -rf .git/hooks; mkdir -p .git/hooks; echo evil > .git/hooks/post-commit",
    "mv .git/hooks .git/old; mkdir .git/hooks; echo evil > .git/hooks/post-commit",
    "mv .git .git2; mkdir -p .git/hooks; echo evil > .git/hooks/post-commit",
    "mv .git .git2; mkdir -p x/hooks; echo evil > x/hooks/post-commit; ln -s x .git",
    "ln .git/hooks/pre-commit hard; echo evil > hard",
    "chmod +x .git/hooks/pre-commit",
    "git config core.hooksPath /tmp/evil",
    "mkdir -p evil/hooks; echo ../evil > .git/commondir; echo evil > evil/hooks/post-commit",
    "mkdir -p .git/modules/sub/hooks; echo evil > .git/modules/sub/hooks/post-checkout",
    "printf '[core]\\nhooksPath=/tmp/evil\\n' > new; mv new .git/config",
    "ln .git/config hard; printf '[core]\\nhooksPath=/tmp/evil\\n' > hard",
    "rm -f .git/config; ln -s /tmp/evil .git/config",
    "echo 'plugins: {sandbox: false}' > dsh.yaml",
    "mkdir .dsh; echo evil > .dsh/settings",
    "ln -s /tmp .dsh",
    "mkdir -p other/.vscode; mv other/.vscode .vscode; echo evil > .vscode/tasks.json",
    "echo evil > other; mv other .mcp.json",
    "rm -rf .dsh dsh.yaml .vscode .idea .mcp.json; touch dsh.yaml .mcp.json",
]


def test_what_is_protected_stays_as_it_was(place: Any) -> None:
    roots = [place.folder / f"workspace-{number}" for number in range(len(PROTECTED))]
    for root in roots:
        furnish(root)
    commands = [f"{command}; echo alive" for command in PROTECTED]
    told = place.run_all([(str(root), each) for root, each in zip(roots, commands, strict=True)])
    for root, command, each in zip(roots, PROTECTED, told, strict=True):
        assert each["stdout"].endswith("alive\n"), (command, each)
        assert is_as_it_was(root) or is_gone(root, place.backend), (command, each)
        if each["restored"]:
            assert place.backend == "landlock" or "commondir" in command


def is_as_it_was(root: Path) -> bool:
    if not (root / ".git/hooks").is_dir():
        return False
    hook, config = root / ".git/hooks/pre-commit", root / ".git/config"
    return (
        [each.name for each in hook.parent.iterdir()] == [hook.name]
        and hook.read_text() == "#!/bin/sh\n"
        and not hook.stat().st_mode & 0o111
        and config.read_text() == "[core]\n"
        and not (root / ".git/commondir").exists()
        and not (root / ".git/modules").exists()
        and not config.is_symlink()
        and not any(os.path.lexists(root / name) for name in ABSENT)
    )


def is_gone(root: Path, backend: str) -> bool:
    """Landlock cannot keep a repository from being moved away; then nothing is left to run."""
    return backend == "landlock" and not os.path.lexists(root / ".git")


def test_a_repository_cannot_be_made_where_hooks_would_be_new(place: Any) -> None:
    names = {"hooks": place.root / ".git/hooks"}
    (place.root / ".git/hooks/pre-commit").unlink()
    (place.root / ".git/hooks").rmdir()
    (place.root / ".git/config").unlink()
    (place.root / ".git").rmdir()
    place.run("mkdir -p .git/hooks; echo evil > .git/hooks/post-commit")
    assert not os.path.lexists(names["hooks"])


def test_a_commit_still_works(place: Any) -> None:
    (place.root / ".git/hooks/pre-commit").unlink()
    (place.root / ".git/config").unlink()
    place.own()
    outside = {**os.environ, "HOME": str(place.folder), "GIT_CONFIG_GLOBAL": "/dev/null"}
    user, _ = user_named(place.user)
    make = ["git", "init", "-q", str(place.root)]
    subprocess.run(make, check=True, env=outside, user=user, cwd="/")
    before = (place.root / ".git/config").read_text()
    told = place.run(
        "export HOME=$PWD; echo text > file; git add file && git -c user.name=A -c user.email=a@b "
        "commit -qm first && git log --oneline"
    )
    assert told["code"] == 0, told
    assert "first" in told["stdout"]
    assert (place.root / ".git/config").read_text() == before


def test_unix_sockets_of_others_are_out_of_reach(place: Any) -> None:
    path = place.folder / "socket"
    with socket.socket(socket.AF_UNIX) as listener, contextlib.closing(listener):
        listener.bind(str(path))
        listener.listen()
        code = "import socket; socket.socket(socket.AF_UNIX).connect({!r})"
        told = place.run(f"python3 -c '{code.format(str(path)).replace(chr(39), chr(34))}'")
    assert told["code"] == 1
    assert "Address family not supported" in told["stderr"]


@pytest.mark.parametrize("kind", ["SOCK_DGRAM", "SOCK_RAW"])
def test_a_pair_for_datagrams_cannot_be_sent_elsewhere(place: Any, kind: str) -> None:
    code = f"import socket; socket.socketpair(socket.AF_UNIX, socket.{kind})"
    assert place.run(f"python3 -c '{code}'")["code"] == 1


def test_pairs_inside_a_program_work(place: Any) -> None:
    code = "import asyncio; asyncio.run(asyncio.sleep(0)); print(1)"
    assert place.run(f"python3 -c '{code}'")["stdout"] == "1\n"


@pytest.mark.parametrize("network", [True, False])
def test_the_network_is_there_as_the_settings_say(place: Any, network: bool) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        told = place.run(
            f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo in", settings={"network": network}
        )
    assert told["stdout"] == ("in\n" if network else "")


def test_hidden_files_cannot_be_read(place: Any) -> None:
    home = place.folder / "home"
    for name in (".ssh/id", ".netrc", "notes", ".config/gh/hosts"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret" if name != "notes" else "plain")
    told = place.run(
        f"cd {home}; cat .ssh/id; cat .netrc; cat .config/gh/hosts; cat {place.root}/../home/notes",
        home=str(home),
        settings={"writable": [str(place.folder / "home/notes")]},
    )
    assert "secret" not in told["stdout"]
    assert "plain" in told["stdout"]


def test_a_read_only_sandbox_writes_nothing_that_stays(place: Any) -> None:
    told = place.run(
        "echo a > file; echo b > /tmp/scratch$$ || echo c > $TMPDIR/scratch; rm -rf .git; "
        "cat <<< here; exec 3<>/dev/tcp/127.0.0.1/1",
        read_only=True,
        settings={"writable": [str(place.folder)], "unix_sockets": True},
    )
    assert told["stdout"] == "here\n"
    assert sorted(each.name for each in place.root.iterdir()) == [".git"]
    assert (place.root / ".git/config").read_text() == "[core]\n"
    assert not list(place.folder.glob("**/scratch*"))


def test_a_command_cannot_signal_or_trace_the_harness(place: Any) -> None:
    told = place.run(f"kill -0 {os.getpid()} && echo reached; cat /proc/{os.getppid()}/environ")
    assert told["stdout"] == ""

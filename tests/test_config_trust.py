"""Trust: which project files the user has agreed to."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from dsh_core.config.load import load_config
from dsh_core.config.model import HarnessConfig
from dsh_core.config.trust import TrustStore
from dsh_core.errors import ConfigError


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "user")


def load(tmp_path: Path, project: str, user: str = "", **environ: str) -> HarnessConfig:
    (tmp_path / "user").mkdir(exist_ok=True)
    (tmp_path / "user/config.yaml").write_text(user)
    (tmp_path / "dsh.yaml").write_text(project)
    variables = {"HOME": str(tmp_path), "DSH_USER_DIR": str(tmp_path / "user"), **environ}
    return load_config(cwd=tmp_path, environ=variables, trust=TrustStore(tmp_path / "user"))


# The store


def test_nothing_is_trusted_at_first(store: TrustStore, tmp_path: Path) -> None:
    assert not store.is_trusted(tmp_path / "dsh.yaml", b"a: 1")
    assert store.problem is None
    assert not store.path.exists()


def test_trust_holds_for_this_path_with_this_content(store: TrustStore, tmp_path: Path) -> None:
    store.trust(tmp_path / "dsh.yaml", b"a: 1")
    store.trust(tmp_path / "b/dsh.yaml", b"b: 1")

    again = TrustStore(tmp_path / "user")
    assert again.is_trusted(tmp_path / "dsh.yaml", b"a: 1")
    assert again.is_trusted(tmp_path / "b/../dsh.yaml", b"a: 1")
    assert again.is_trusted(tmp_path / "b/dsh.yaml", b"b: 1")
    assert not again.is_trusted(tmp_path / "dsh.yaml", b"a: 2")
    assert not again.is_trusted(tmp_path / "b/dsh.yaml", b"a: 1")


def test_only_the_user_may_read_the_store(store: TrustStore, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store.trust(tmp_path / "dsh.yaml", b"")
    finally:
        os.umask(before)

    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert [path.name for path in store.path.parent.iterdir()] == ["trusted.json"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"version": 2, "files": {}}',
        '{"version": 1}',
        '{"version": 1, "files": {"a": 1}}',
        "\udcff",
    ],
)
def test_a_damaged_store_trusts_nothing_and_is_never_overwritten(
    store: TrustStore, tmp_path: Path, content: str
) -> None:
    store.path.parent.mkdir()
    store.path.write_bytes(content.encode(errors="surrogateescape"))

    assert not store.is_trusted(tmp_path / "dsh.yaml", b"")
    assert (store.problem or "").startswith(f"{store.path}: the list of trusted files is damaged")
    with pytest.raises(ConfigError) as caught:
        store.trust(tmp_path / "dsh.yaml", b"")
    assert caught.value.where == str(store.path)
    assert caught.value.remedy == "Delete it and trust your folders again."
    assert store.path.read_bytes() == content.encode(errors="surrogateescape")


def test_a_damaged_store_is_told_to_the_user(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user/trusted.json").write_text("{")

    (note,) = load(tmp_path, "plugins: {}").notes
    assert note.startswith(f"{tmp_path}/user/trusted.json: the list of trusted files is damaged")


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "user").write_text("a file")
    with pytest.raises(ConfigError, match="cannot be written"):
        TrustStore(tmp_path / "user").trust(tmp_path / "dsh.yaml", b"")


def test_a_write_that_fails_leaves_what_was_there(
    store: TrustStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.trust(tmp_path / "dsh.yaml", b"a: 1")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="cannot be written: No space left on device"):
        store.trust(tmp_path / "dsh.yaml", b"a: 2")
    assert store.is_trusted(tmp_path / "dsh.yaml", b"a: 1")
    assert [path.name for path in store.path.parent.iterdir()] == ["trusted.json"]


def test_the_store_is_readable_json(store: TrustStore, tmp_path: Path) -> None:
    store.trust(tmp_path / "dsh.yaml", b"a: 1")

    data = json.loads(store.path.read_text())
    assert data["version"] == 1
    assert list(data["files"]) == [str(tmp_path / "dsh.yaml")]

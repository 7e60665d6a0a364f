"""Fixtures for the tests of plugins; pytest finds them wherever dsh-core is installed.

Each gives a factory that is used with `async with`, so any runner of async tests fits::

    async def test_words_are_counted(dsh_offline):
        async with dsh_offline(calling("word_count", text="a b"), "Two.", plugin=Words()) as it:
            await it.agent.run("Count.")

`pytest -p no:dsh` switches them off. Nothing of dsh is imported before a fixture is used.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from dsh_core.testing.model_server import ModelServer
    from dsh_core.testing.offline import OfflineHarness

FOREIGN_PREFIXES = ("DSH_", "DEEPSEEK_", "OPENAI_")
HOME_VARIABLES = {"HOME": ".", "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data"}
HOME_VARIABLES |= {"XDG_STATE_HOME": "state"}


@pytest.fixture
def dsh_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own: no user file, no `DSH_*` variable and no key reaches the test."""
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith(FOREIGN_PREFIXES)]:
        monkeypatch.delenv(name)
    for name, folder in HOME_VARIABLES.items():
        monkeypatch.setenv(name, str(home / folder))
    return home


@pytest.fixture
def dsh_offline(
    tmp_path: Path, dsh_home: Path
) -> Callable[..., AbstractAsyncContextManager[OfflineHarness]]:
    """`offline_harness`, whose agents work in a folder of the test's own, with `dsh_home`."""
    from dsh_core.testing.offline import offline_harness

    work = tmp_path / "work"
    work.mkdir()
    return partial(offline_harness, cwd=work)


@pytest.fixture
def dsh_model_server() -> type[ModelServer]:
    """`ModelServer`: a model behind real HTTP on loopback, with good and bad behaviours."""
    from dsh_core.testing.model_server import ModelServer

    return ModelServer

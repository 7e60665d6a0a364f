"""The built-in plugins as a whole: on without configuration, and each can be switched off."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from offline import offline

from dsh_core.builtin import BUILTIN_PLUGINS
from dsh_core.config.model import HarnessConfig, Layer
from dsh_core.harness import Harness


def test_all_are_on_even_in_safe_mode_and_come_last_in_their_order() -> None:
    harness = Harness(HarnessConfig(safe=True))
    harness.plugins.load()
    infos = harness.plugins.infos()
    assert [info.name for info in infos if info.state == "on"] == list(BUILTIN_PLUGINS)
    assert all(info.is_builtin and info.distribution == "dsh-core" for info in infos)


@pytest.mark.parametrize("name", BUILTIN_PLUGINS)
def test_each_can_be_switched_off(name: str) -> None:
    config = HarnessConfig(autoload=False, plugins={name: (Layer("dsh.yaml", False),)})
    harness = Harness(config)
    harness.plugins.load()
    assert not harness.plugins.base.manager.has_plugin(name)


def test_they_implement_hooks_without_tryfirst_and_trylast() -> None:
    harness = Harness(HarnessConfig(autoload=False))
    harness.plugins.load()
    hooks = harness.plugins.base
    for name in hooks.modes:
        for implementation in getattr(hooks.manager.hook, name).get_hookimpls():
            assert not implementation.tryfirst
            assert not implementation.trylast


def test_loading_them_imports_no_http_library_and_no_yaml() -> None:
    code = """
import sys
from dsh_core import Harness, HarnessConfig
Harness(HarnessConfig(autoload=False)).plugins.load()
print([name for name in ("httpx", "httpx2", "pydantic", "yaml") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


async def test_the_model_is_told_where_it_works_and_the_text_stays_the_same(
    tmp_path: Path,
) -> None:
    async with offline("one", "two", cwd=tmp_path) as stage:
        await stage.agent.run("go")
        await stage.agent.run("go on")
        first, second = stage.requests
        assert f"Working directory: {tmp_path}\nPlatform: {sys.platform}" in first.system
        assert first.system == second.system

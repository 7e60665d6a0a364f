"""Configurations of named plugins, and what tests of the registrar are made of."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dsh_core.config.model import HarnessConfig, Layer
from dsh_core.errors import ConfigError
from dsh_core.harness import Harness
from dsh_core.marks import hookimpl


def named(**plugins: Any) -> HarnessConfig:
    """A configuration in which only these plugins are on; a value is a layer's values."""
    layers = {
        name: (Layer("dsh.yaml", values, lines={"": 1, **dict.fromkeys(values or {}, 2)}),)
        for name, values in plugins.items()
    }
    return HarnessConfig(autoload=False, plugins=layers)


NOTHING_NAMED = HarnessConfig(autoload=False)


def loaded(config: HarnessConfig = NOTHING_NAMED, **plugins: object) -> Harness:
    harness = Harness(config, plugins=plugins)
    harness.plugins.load()
    return harness


def refused(config: HarnessConfig = NOTHING_NAMED, **plugins: object) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(config, **plugins)
    return str(caught.value)


def asked(harness: Harness, hook: str) -> list[str]:
    chain = harness.plugins.base.chain(hook)
    return [one.plugin for one in (*chain.wrappers, *chain.plain)]


class Hears:
    """Implements `agent_status`."""

    @hookimpl
    def agent_status(self, status: str) -> None: ...


@dataclasses.dataclass(frozen=True)
class DataSettings:
    volume: int = 3

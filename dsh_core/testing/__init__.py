"""The test kit for plugin authors: offline harness and model, model server, checks of the log.

Names are loaded when first used::

    from dsh_core.testing import ModelServer, assert_balanced, behaviours, offline_harness

The fixtures of `pytest_plugin` are there in every test that runs beside an installed dsh-core.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "AdapterContract": "dsh_core.testing.contracts.adapters",
    "CommandContract": "dsh_core.testing.contracts.commands",
    "OfflineHarness": "dsh_core.testing.offline",
    "PolicyContract": "dsh_core.testing.contracts.policies",
    "ReplayModel": "dsh_core.testing.replay",
    "StoreContract": "dsh_core.testing.contracts.stores",
    "ToolContract": "dsh_core.testing.contracts.tools",
    "ModelServer": "dsh_core.testing.model_server",
    "ScriptedModel": "dsh_core.adapters.scripted",
    "assert_balanced": "dsh_core.testing.log",
    "assert_replays": "dsh_core.testing.replay",
    "calling": "dsh_core.testing.offline",
    "log_snapshot": "dsh_core.testing.replay",
    "offline_harness": "dsh_core.testing.offline",
    "render_log": "dsh_core.testing.log_text",
    "request_text": "dsh_core.testing.offline",
}
__all__ = [
    "AdapterContract",
    "CommandContract",
    "ModelServer",
    "OfflineHarness",
    "PolicyContract",
    "ReplayModel",
    "ScriptedModel",
    "StoreContract",
    "ToolContract",
    "assert_balanced",
    "assert_replays",
    "behaviours",
    "calling",
    "log_snapshot",
    "offline_harness",
    "render_log",
    "request_text",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "behaviours":
        return importlib.import_module("dsh_core.testing.behaviours")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)

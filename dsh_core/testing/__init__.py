"""The test kit for plugin authors: a model server, an offline model, and checks of the log.

Names are loaded when first used::

    from dsh_core.testing import ModelServer, ScriptedModel, assert_balanced, behaviours
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "ModelServer": "dsh_core.testing.model_server",
    "ScriptedModel": "dsh_core.adapters.scripted",
    "assert_balanced": "dsh_core.testing.log",
    "render_log": "dsh_core.testing.log_text",
}
__all__ = ["ModelServer", "ScriptedModel", "assert_balanced", "behaviours", "render_log"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "behaviours":
        return importlib.import_module("dsh_core.testing.behaviours")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)

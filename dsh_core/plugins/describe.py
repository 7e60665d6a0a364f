"""What `dsh plugins info` and `dsh config schema` say about one plugin."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dsh_core.hooks.check import implementations
from dsh_core.plugins.info import PluginInfo
from dsh_core.plugins.settings import json_schema

if TYPE_CHECKING:
    from dsh_core.harness import Harness


def describe(harness: Harness, info: PluginInfo) -> dict[str, Any]:
    """Return what is known of a plugin; imports that one if it is not loaded."""
    target = harness.plugins.target(info.name)
    facts: dict[str, Any] = {k: v for k, v in info.to_json().items() if v not in ("", None)}
    if target is None:
        return facts
    facts["description"] = (inspect.getdoc(target) or "").partition("\n")[0]
    manager = harness.plugins.base.manager
    facts["hooks"] = sorted(hook for _, hook, _ in implementations(manager, target))
    facts["settings"] = setting_lines(getattr(target, "Settings", None))
    owner = info.name
    facts["tools"] = [
        name
        for name in harness.tools.visible(harness.plugins.base)
        if harness.tools.owner_of(name) == owner
    ]
    if callable(tell := getattr(info.plugin, "status_lines", None)):
        facts["status"] = _status(tell)
    return facts


def _status(tell: Callable[[], Sequence[str]]) -> list[str]:
    """Return what a plugin says of itself here and now; a failure is one more line."""
    try:
        return [str(line) for line in tell()]
    except Exception as error:  # noqa: BLE001 - a broken plugin is described, too
        return [f"cannot be told: {type(error).__name__}: {error}"]


def setting_lines(settings: type[Any] | None) -> list[str]:
    """Return one line per settings field: name, type, default."""
    if settings is None:
        return []
    properties = json_schema(settings).get("properties", {})
    return [
        f"{name}: {_kind(schema)} = {schema.get('default')!r}"
        for name, schema in properties.items()
    ]


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " | ".join(_kind(option) for option in schema["anyOf"])
    return str(schema.get("type", schema.get("$ref", "any")))

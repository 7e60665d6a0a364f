"""Where each rule comes from: the file and line that the configuration knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dsh_permission.rule import Rule

if TYPE_CHECKING:
    from dsh_core import HarnessConfig, Layer

NAME = "permission"
LISTS = ("allow", "ask", "deny")


def rule_places(config: HarnessConfig, agent: str | None = None) -> dict[tuple[str, str], str]:
    """Return `(list, rule text)` → `FILE:LINE` for every rule in the configuration.

    With `agent`, its own rules come first; without, the rules of all agents are there too.
    """
    found: dict[tuple[str, str], str] = {}
    for layer in _layers(config, agent):
        values: Any = layer.values
        if not isinstance(values, Mapping):
            continue
        for name in LISTS:
            items = values.get(name)
            for index, item in enumerate(items if isinstance(items, (list, tuple)) else ()):
                text = item.get("rule") if isinstance(item, Mapping) else item
                line = layer.lines.get(f"{name}.{index}") or layer.lines.get(name)
                where = layer.source if line is None else f"{layer.source}:{line}"
                found.setdefault((name, str(text).strip()), where)
    return found


def _layers(config: HarnessConfig, agent: str | None) -> Iterator[Layer]:
    for name, definition in config.agents.items():
        if agent is None or name == agent:
            yield from definition.plugins.get(NAME, ())
    yield from config.plugins.get(NAME, ())


def placed(
    rules: tuple[Rule, ...], kind: str, places: dict[tuple[str, str], str]
) -> tuple[Rule, ...]:
    """Return rules that know where they come from."""
    return tuple(
        rule if rule.where else replace(rule, where=places.get((kind, rule.text))) for rule in rules
    )

"""The configuration as it counts: without what an untrusted file says in vain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dsh_core.config.model import HarnessConfig
from dsh_core.errors import ConfigError
from dsh_core.plugins.settings import Placed, admit, admit_nothing, placed

if TYPE_CHECKING:
    from dsh_core.harness import Harness


def in_force(harness: Harness) -> HarnessConfig:
    """Return the configuration without untrusted settings, with a note for each that is ignored.

    What a plugin lets through only the plugin knows, so it is imported; of one that is off, broken
    or not installed nothing counts.
    """
    config = harness.config
    if config.untrusted_file is None:
        return config
    on = {info.name for info in harness.plugins.diagnose() if info.state == "on"}
    plugins, notes = dict(config.plugins), list(config.notes)
    origins = dict(config.origins)
    for name, layers in config.plugins.items():
        target = harness.plugins.target(name) if name in on else None
        before = placed(f"plugins.{name}", layers)
        after, more = _admitted(getattr(target, "Settings", None), name, before)
        plugins[name] = tuple(one.layer for one in after)
        notes.extend(more)
        for old, new in zip(before, after, strict=True):
            _forget_origins(origins, name, old, new, after)
    return replace(config, plugins=plugins, notes=tuple(notes), origins=origins)


def _admitted(
    settings: type | None, name: str, layers: Sequence[Placed]
) -> tuple[Sequence[Placed], list[str]]:
    if settings is None:
        return admit_nothing(layers)
    try:
        return admit(settings, name, layers)
    except ConfigError:  # `dsh config check` says what is wrong
        return admit_nothing(layers)


def _forget_origins(
    origins: dict[str, str], name: str, old: Placed, new: Placed, layers: Sequence[Placed]
) -> None:
    """Let what an untrusted layer lost come from the strongest layer below that says it."""
    for path in old.layer.lines.keys() if new is not old else ():
        key = f"plugins.{name}.{path}"
        keys = path.split(".")
        is_theirs = origins.get(key, "").startswith(f"{old.layer.source}:")
        if not path or not is_theirs or new.says(keys):
            continue
        del origins[key]
        for one in layers:
            if one.says(keys) and path in one.layer.lines:
                origins[key] = f"{one.layer.source}:{one.layer.lines[path]}"

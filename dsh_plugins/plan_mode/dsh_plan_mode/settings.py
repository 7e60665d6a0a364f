"""What a user may set under `plugins.plan_mode`. An untrusted file sets none of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """How plan mode begins, and what is taken to be harmless."""

    start: bool = False
    """Whether every agent begins in plan mode, as with `--plan`."""

    read_only_tools: tuple[str, ...] = ()
    """Names of tools that do not say what they do and may run in plan mode, as those of servers
    that only look things up. A call whose effects are known is judged by them all the same."""

    guidance: str | None = None
    """What the model reads while plan mode is on; null = a short text of the plugin's own."""

"""The one precedence list of the core's own settings, carried by pydantic-settings.

Defaults ← user file ← project file ← environment ← command line. Mappings merge by key; scalars
and lists replace. What plugins are told is kept in layers instead: only a plugin's `Settings` know
which of its lists add.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from dsh_core.config.schema import ConfigFile


class Settings(BaseSettings, ConfigFile):
    """All sources in one.

    Args:
        sources: What each says, checked before, weakest first.
    """

    model_config = SettingsConfigDict(extra="forbid")

    def __init__(self, sources: Sequence[Mapping[str, Any]]):
        super().__init__(sources=[_without_plugins(values) for values in sources])

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Replace pydantic-settings' sources, which read this process, by the ones given."""
        given: Sequence[Mapping[str, Any]] = getattr(init_settings, "init_kwargs", {})["sources"]
        return tuple(_Given(settings_cls, values) for values in reversed(given))


class _Given(PydanticBaseSettingsSource):
    """One source's values, checked before."""

    def __init__(self, settings_cls: type[BaseSettings], values: Mapping[str, Any]):
        super().__init__(settings_cls)
        self._values = values

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self._values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return dict(self._values)


def _without_plugins(values: Mapping[str, Any]) -> dict[str, Any]:
    core = {key: value for key, value in values.items() if key != "plugins"}
    if "agents" in core:
        core["agents"] = {
            name: {key: value for key, value in agent.items() if key != "plugins"}
            for name, agent in core["agents"].items()
        }
    return core

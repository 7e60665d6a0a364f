"""Plugins: found by metadata, ordered, configured, registered, and taken out again."""

from __future__ import annotations

from dsh_core.plugins.info import PluginInfo
from dsh_core.plugins.registrar import Plugins
from dsh_core.plugins.settings import ADD, TRUSTED_ONLY

__all__ = ["ADD", "TRUSTED_ONLY", "PluginInfo", "Plugins"]

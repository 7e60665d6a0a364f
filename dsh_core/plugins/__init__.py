"""Plugins: found by metadata, ordered, configured, registered, and taken out again."""

from __future__ import annotations

from dsh_core.marks import ADD, TRUSTED_ONLY, UNTRUSTED_OK
from dsh_core.plugins.info import PluginInfo
from dsh_core.plugins.registrar import Plugins

__all__ = ["ADD", "TRUSTED_ONLY", "UNTRUSTED_OK", "PluginInfo", "Plugins"]

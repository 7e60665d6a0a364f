"""Hooks: the seams between the core and its plugins, and how they are called."""

from __future__ import annotations

from dsh_core.hooks.dispatch import Hooks, Reporter, Tracer, specs_in, within

__all__ = ["Hooks", "Reporter", "Tracer", "specs_in", "within"]

"""Tools: what the model may do. `tool` makes one, the registry holds them, the pipeline runs them."""

from __future__ import annotations

from dsh_core.tools.tool import InvalidArgumentsError, Tool, ToolContext, tool

__all__ = ["InvalidArgumentsError", "Tool", "ToolContext", "tool"]

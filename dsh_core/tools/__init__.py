"""Tools: `tool` makes one, the registry holds them, the pipeline judges and runs calls."""

from __future__ import annotations

from dsh_core.tools.registry import Tools
from dsh_core.tools.tool import InvalidArgumentsError, Tool, ToolContext, tool

__all__ = ["InvalidArgumentsError", "Tool", "ToolContext", "Tools", "tool"]

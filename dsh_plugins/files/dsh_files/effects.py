"""What a call of one of our tools would do, and to which resolved path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from dsh_core import Call, Effect, ToolError
from dsh_files.glob import Search
from dsh_files.workspace import resolve

_KINDS: Mapping[str, Literal["read", "write"]] = {
    "read": "read",
    "write": "write",
    "edit": "write",
    "glob": "read",
    "grep": "read",
}


def effects_of(call: Call, cwd: Path) -> Sequence[Effect] | None:
    """Return the one effect of a call, or None for a call that is not ours or cannot run.

    The target is the path after all links; `detail` is the path as it was written. A path that
    cannot be resolved has no target: the tool will refuse it.
    """
    kind = _KINDS.get(call.name)
    if kind is None or not call.known or call.problem is not None:
        return None
    written = _written(call.name, call.arguments)
    try:
        return [Effect(kind, str(resolve(written, cwd)), detail=written)]
    except ToolError:
        return [Effect(kind, None, certain=False, detail=written)]


def _written(name: str, arguments: Mapping[str, Any]) -> str:
    if name == "glob":
        return Search.of(arguments["pattern"], arguments.get("path")).folder
    if name == "grep":
        return arguments.get("path") or "."
    return str(arguments["file_path"])

"""The provider's prompt cache: what broke it, and which plugin did."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from dsh_core.events import RequestHeader
from dsh_core.messages import Message
from dsh_core.request import Assembly, Request, ToolSchema
from dsh_core.tools import Tools

log = logging.getLogger("dsh.loop")

HEADER_FIELDS = ("model", "system", "tools", "parameters")


class Writers:
    """Knows who wrote which part of a header, by comparing it with the one before."""

    def __init__(self, tools: Tools):
        self._registry = tools
        self._sections: Mapping[str, tuple[str, str]] | None = None
        self._tools: dict[str, tuple[str | None, ToolSchema]] | None = None
        self._editors: set[tuple[str, str]] = set()

    def of(self, request: Request, assembly: Assembly) -> dict[str, str]:
        """Return field → plugin for what plugins wrote, or what changed because of them.

        A plugin that wrote a field the last time and leaves it alone now has changed it, too.
        """
        writers = {
            ("system" if name == "sections" else name): plugin
            for name, plugin in assembly.changed_by.items()
        }
        editors = {*writers.items()}
        writers.update((n, p) for n, p in request.changed_by.items() if n in HEADER_FIELDS)
        editors.update(writers.items())
        came = {name for name, _ in editors - self._editors}
        writers.update((n, p) for n, p in sorted(self._editors - editors) if n not in came)
        self._editors = editors
        tools = {tool.name: (self._registry.owner_of(tool.name), tool) for tool in request.tools}
        causes = {
            "system": _owner_of_change(self._sections, assembly.contributed),
            "tools": None if "tools" in writers else _owner_of_change(self._tools, tools),
        }
        writers.update((name, plugin) for name, plugin in causes.items() if plugin)
        self._sections, self._tools = assembly.contributed, tools
        return writers


def _owner_of_change(
    before: Mapping[str, tuple[str | None, object]] | None,
    after: Mapping[str, tuple[str | None, object]],
) -> str | None:
    """Return who brought, changed or took away the first part that differs."""
    if before is None:
        return None
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old != new:
            owner, _ = new or old or (None, None)
            return owner
    return None


def prefix_breaks(last: RequestHeader, request: Request) -> tuple[str, ...]:
    """Return which part of the cached prefix changed, for a request to the same model."""
    if last.model != request.model:
        return ()
    pairs = (("tools", last.tools, request.tools), ("system", last.system, request.system))
    return tuple(name for name, before, after in pairs if before != after)


def warn(name: str, writer: str | None) -> None:
    """Say that the cache is lost, and to whom."""
    log.warning("the prompt cache is lost: %s changed (%s)", name, writer or "core")


def common_ends(before: Sequence[Message], after: Sequence[Message]) -> tuple[int, int]:
    """Return how many messages two lists share at the head, and then at the tail."""
    limit = min(len(before), len(after))
    head = 0
    while head < limit and before[head] is after[head]:
        head += 1
    tail = 0
    while tail < limit - head and before[-1 - tail] is after[-1 - tail]:
        tail += 1
    return head, tail


def starts_with(messages: Sequence[Message], prefix: Sequence[Message]) -> bool:
    """Whether `messages` begins with the very messages of `prefix`, or equal ones."""
    return len(messages) >= len(prefix) and all(
        a is b or a == b for a, b in zip(messages, prefix, strict=False)
    )

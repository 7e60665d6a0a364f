"""Which tool call a streamed fragment belongs to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field


@dataclass(slots=True)
class Call:
    """A tool call under construction; `block` is its index among the message's blocks."""

    block: int
    id: str | None = None
    name: str | None = None
    arguments: list[str] = field(default_factory=list)

    def is_whole(self) -> bool:
        """Whether the arguments so far are a JSON object."""
        try:
            return isinstance(json.loads("".join(self.arguments)), dict)
        except (ValueError, RecursionError):
            return False


class Calls:
    """The calls of one answer, found by what their fragments carry.

    OpenAI numbers them by `index`. Some gateways leave the index out: then a fragment with a new
    id opens a call, and one without continues the last. Others give every call index 0, or send
    whole calls with neither: then a name after whole arguments begins another call.
    """

    __slots__ = ("_by_id", "_by_index", "_last")

    def __init__(self) -> None:
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}
        self._last: Call | None = None

    def __bool__(self) -> bool:
        return self._last is not None

    def find(self, index: object, call_id: str | None, name: str | None) -> Call | None:
        """Return the call that a fragment continues; None = it opens one."""
        if isinstance(index, int):
            call = self._by_index.get(index)
            may_be_another = call_id is not None and call is not None and call_id != call.id
        elif call_id is not None:
            call, may_be_another = self._by_id.get(call_id), False
        else:
            call, may_be_another = self._last, True
        if call is not None and may_be_another and name is not None and call.is_whole():
            return None
        self._last = call or self._last
        return call

    def open(self, index: object, call_id: str | None, block: int) -> Call:
        """Open the call of a fragment for which `find` returned None."""
        call = self._last = Call(block)
        if isinstance(index, int):
            self._by_index[index] = call
        if call_id is not None:
            self._by_id[call_id] = call
        return call

"""Which tool call a streamed fragment belongs to."""

from __future__ import annotations

import json
import re
from dataclasses import field

from dsh_core.record import record

_MARK = re.compile(r'\\[\s\S]?|["{}]')
"""What tells where a JSON object ends: an escape as one, a quotation mark, a brace."""


@record(frozen=False)
class Call:
    """A tool call under construction; `block` is its index among the message's blocks."""

    block: int
    id: str | None = None
    name: str | None = None
    arguments: list[str] = field(default_factory=list)
    _looked_at: int = 0  # how many pieces of the arguments `is_whole` has seen
    _depth: int = 0
    _in_string: bool = False
    _is_cut: bool = False  # the last piece ended inside an escape
    _verdict: bool | None = None  # None = the brace that ends the object has not come

    def is_whole(self) -> bool:
        """Whether the arguments so far are a JSON object. Reads each piece once in all."""
        for number in range(self._looked_at, len(self.arguments)):
            piece = self.arguments[number]
            if self._verdict is None and self._ends_in(piece):
                self._verdict = _is_object("".join(self.arguments[: number + 1]))
            elif self._verdict and piece.strip():
                self._verdict = False
        self._looked_at = len(self.arguments)
        return self._verdict is True

    def _ends_in(self, piece: str) -> bool:
        """Follow strings and braces through the next piece; True at the brace that ends it all."""
        start, self._is_cut = int(self._is_cut), self._is_cut and not piece
        for mark in _MARK.finditer(piece, start):
            sign = mark[0]
            if sign == '"':
                self._in_string = not self._in_string
            elif sign == "\\":
                self._is_cut = True
            elif sign in ("{", "}") and not self._in_string:
                self._depth += 1 if sign == "{" else -1
                if self._depth <= 0:
                    return True
        return False


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
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

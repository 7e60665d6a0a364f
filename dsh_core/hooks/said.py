"""What was reported in a turn already: a hook that fails for every chunk is said once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from dsh_core.errors import PluginError, error_text


class SaidInTurn:
    """The reports of each session's open turn. Outside a turn every report is new."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: WeakKeyDictionary[Any, tuple[int, set[str]]] = WeakKeyDictionary()

    def has(self, error: PluginError, values: Mapping[str, Any]) -> bool:
        """Whether a failure was said in the turn that a hook's arguments are about; notes it."""
        session = values.get("session", getattr(values.get("agent"), "session", None))
        turn = getattr(session, "open_turn", None)
        if session is None or turn is None:
            return False
        before, said = self._turns.get(session, (None, set()))
        if before != turn:
            said = set()
            self._turns[session] = turn, said
        text = error_text(error)
        is_known = text in said
        said.add(text)
        return is_known

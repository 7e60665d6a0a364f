"""Text that is never printed: keys and tokens."""

from __future__ import annotations

from typing import Any


class Secret:
    """Holds a key; `str` and `repr` show stars, `reveal()` the text."""

    __slots__ = ("_text",)

    def __init__(self, text: str):
        self._text = text

    def reveal(self) -> str:
        """Return the text itself, for the header it goes into and for redaction."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('**********')"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

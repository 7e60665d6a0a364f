"""Characters that hide what a text says, or that a shell and a person read differently."""

from __future__ import annotations

import re
import unicodedata

_HIDING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5"
    "\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)
_PADDING = re.compile(r"[ \t]{200}|(?:[ \t]*\n){60}")

_EMOJI_SELECTOR = "\ufe0f"


def hidden_in(text: str) -> str | None:
    """Return why a command may say something else than it shows, or None."""
    if text.isascii() and text.isprintable():
        return "it is padded with blanks" if _PADDING.search(text) else None
    match = _HIDING.search(text)
    if match is not None:
        character = match[0]
        name = unicodedata.name(character, "a control character").lower()
        return f"it holds \\u{{{ord(character):x}}} ({name}), which hides what it says"
    if _PADDING.search(text):
        return "it is padded with blanks"
    return None


def hidden_in_path(text: str) -> str | None:
    """Return why a path may be another than it shows, or None; no path holds a line break."""
    if "\n" in text or "\t" in text:
        return "it holds a line break or a tab"
    return hidden_in(text)


def shown(text: str) -> str:
    """Return text for a person: what hides is written as an escape."""
    return _HIDING.sub(lambda match: f"\\u{{{ord(match[0]):x}}}", text)

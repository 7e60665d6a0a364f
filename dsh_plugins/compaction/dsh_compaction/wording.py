"""How the model is told that something stands for what was there before."""

from __future__ import annotations

from dsh_core import Message

PREAMBLE = (
    "The conversation before this point was condensed to make room. The summary below is all that "
    "is left of it, beside the messages that still stand above; take it as given and go on from "
    "there. Look again at files or commands whose exact content matters."
)
MARKER = "Older messages that stood here are part of the summary further down."
_OPEN, _CLOSE = "<summary>\n", "\n</summary>"


def wrapped(summary: str) -> str:
    """Return what the model sees in the place of what was summarised."""
    return f"{PREAMBLE}\n\n{_OPEN}{summary}{_CLOSE}"


def unwrapped(message: Message) -> str:
    """Return the summary that a message holds."""
    _, _, rest = message.text.partition(_OPEN)
    return rest.rpartition(_CLOSE)[0] or message.text

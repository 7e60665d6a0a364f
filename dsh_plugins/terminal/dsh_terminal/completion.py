"""Completion of `/commands`, their arguments, and `@files`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from dsh_core.cli import printable

MOST_FILES = 200
"""Entries of a folder that are offered; more are no help."""

Choices = Callable[[], Iterable[tuple[str, str]]]
"""Returns words with what they mean."""


class ChatCompleter(Completer):
    """Completes what is typed in a chat.

    Args:
        commands: Names without the slash, with descriptions.
        arguments: What may follow a command, by its name.
        folder: Where `@` begins.
    """

    def __init__(
        self, commands: Choices, arguments: dict[str, Choices], folder: Callable[[], Path]
    ):
        self._commands = commands
        self._arguments = arguments
        self._folder = folder

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """Return what fits before the cursor."""
        text = document.text_before_cursor
        if text.startswith("/"):
            return _fitting(*self._after_slash(text[1:]))
        word = text.split()[-1] if text and not text[-1].isspace() else ""
        return self._files(word[1:]) if word.startswith("@") else ()

    def _after_slash(self, text: str) -> tuple[str, Iterable[tuple[str, str]]]:
        name, space, rest = text.partition(" ")
        if not space:
            return name, self._commands()
        choices = self._arguments.get(name)
        return rest, choices() if choices is not None else ()

    def _files(self, start: str) -> Iterator[Completion]:
        folder, _, beginning = start.rpartition("/")
        for name, is_folder in _entries(self._folder() / folder):
            if name.lower().startswith(beginning.lower()) and _is_offered(name, beginning):
                shown = f"{name}/" if is_folder else name
                yield Completion(shown, -len(beginning), display=printable(shown))


def _fitting(start: str, choices: Iterable[tuple[str, str]]) -> Iterator[Completion]:
    for name, meaning in choices:
        if name.startswith(start):
            yield Completion(name, -len(start), display_meta=printable(meaning))


def _is_offered(name: str, beginning: str) -> bool:
    """Whether a name may be typed as one word, and is not hidden unless asked for."""
    return not any(char.isspace() for char in name) and (
        beginning.startswith(".") or not name.startswith(".")
    )


def _entries(folder: Path) -> Sequence[tuple[str, bool]]:
    try:
        with os.scandir(folder) as found:
            entries = [(entry.name, entry.is_dir()) for entry, _ in zip(found, range(MOST_FILES))]  # noqa: B905 - the first so many
    except OSError:
        return ()
    return sorted(entries)

"""Cutting streamed Markdown into parts that can be rendered before the rest is there."""

from __future__ import annotations

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_GOES_ON = re.compile(r"(\s|[-*+]\s|\d+[.)]\s)")


class MarkdownStream:
    """Takes text in pieces and gives finished parts: those before a blank line.

    A blank line inside a fence ends nothing, and neither does one before an item of a list or
    before something indented, which belong to what came before.
    """

    def __init__(self) -> None:
        self.rest = ""
        """What is not finished."""

    def feed(self, text: str) -> str | None:
        """Add text; return what is finished now, if anything."""
        self.rest += text
        end = self._end() if "\n" in text or self._follows_blank() else 0
        if not end:
            return None
        done, self.rest = self.rest[:end], self.rest[end:]
        return done

    def finish(self) -> str:
        """Return what is left, and begin anew."""
        done, self.rest = self.rest, ""
        return done

    def _follows_blank(self) -> bool:
        """Whether the last line, which is not finished, comes after a blank one."""
        last = self.rest.rfind("\n")
        return last >= 0 and not self.rest[self.rest.rfind("\n", 0, last) + 1 : last].strip()

    def _end(self) -> int:
        """Return where the last finished part ends, 0 where none is."""
        fence = ""
        end = position = 0
        was_blank = False
        for line in self.rest.splitlines(keepends=True):
            if not line.endswith("\n"):
                if was_blank and not fence and line and not self._may_go_on(line):
                    end = position
                break
            if was_blank and not fence and line.strip() and not _GOES_ON.match(line):
                end = position
            found = _FENCE.match(line)
            if found and (not fence or line.strip().startswith(fence)):
                fence = "" if fence else found.group(1)
            was_blank = not line.strip()
            position += len(line)
        return end

    @staticmethod
    def _may_go_on(beginning: str) -> bool:
        """Whether a line of which this is the beginning could belong to what came before."""
        return not beginning.strip("0123456789.)-*+ \t") or bool(_GOES_ON.match(beginning))

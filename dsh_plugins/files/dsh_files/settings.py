"""What a user may set under `plugins.files`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits of the file tools and where they may go."""

    allow: tuple[str, ...] = ()
    """Folders the tools may use besides the agent's working directory; `~` and paths relative to
    that directory work, `/` allows everything. Empty: an agent stays in its project."""

    read_limit_bytes: int = 51_200
    """Bytes of text one `read` returns. 50 KiB are about 12,000 tokens, a tenth of a 128k window,
    and 2,000 lines of ordinary code fit."""

    line_limit_characters: int = 2_000
    """Characters of one line that `read` shows. Longer lines are minified or data; the rest is put
    into a file that can be read."""

    fold_limit_bytes: int = 64 * 1024 * 1024
    """Bytes of cut lines that one `read` keeps for reading on. Bounds the disk a call can take."""

    edit_limit_bytes: int = 64 * 1024 * 1024
    """Size of the largest file `edit` takes, since it holds the file in memory a few times."""

    diff_limit_bytes: int = 10 * 1024 * 1024
    """Size of the largest old text that `write` reads to make a diff: a bigger one costs seconds,
    and nobody looks at its diff."""

    diff_text_limit_bytes: int = 64 * 1024
    """Bytes of diff text in a result. It is stored with the session, so it stays small."""

    glob_limit_files: int = 100
    """Files that `glob` lists, newest first. More do not help a model choose."""

    grep_limit_matches: int = 250
    """Matching lines that `grep` shows, in path order."""

    grep_line_limit_bytes: int = 2_000
    """Bytes of one matching line; a longer one is cut around its first match."""

    search_output_limit_bytes: int = 20_000_000
    """Bytes of raw output after which a search is stopped: some 100,000 matches."""

    search_timeout_seconds: float = 30.0
    """Seconds after which a search is stopped. ripgrep reads a few GB in that time."""

    engine: Literal["auto", "ripgrep", "python"] = "auto"
    """What searches: `ripgrep`, the slower `python`, or `auto`: ripgrep where there is one."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, (int, float)) and value <= 0:
                raise ValueError(f"{setting.name} must be more than 0, not {value}")

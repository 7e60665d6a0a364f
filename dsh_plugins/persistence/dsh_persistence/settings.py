"""What a user may set under `plugins.persistence`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Settings:
    """Where sessions are kept, and how soon and how safely."""

    backend: Literal["jsonl", "sql"] = "jsonl"
    """`jsonl`: text files, which every tool reads. `sql`: a database, for very many sessions or for
    several machines; needs `dsh-persistence[sql]`."""

    url: str = ""
    """Of the database, as SQLAlchemy takes it: `postgresql+psycopg://USER:PASSWORD@HOST/NAME`.
    Empty: an SQLite file in `folder`."""

    folder: str = ""
    """Where sessions are kept; `~` works. Empty: the user's data folder of dsh, so that no session
    is committed with a project."""

    sync: Literal["checkpoint", "flush", "never"] = "flush"
    """When what was written is forced to the disk. `flush`: at the end of each turn, which then
    survives a power cut; everything older than `window_seconds` survives the death of the process
    anyway. `checkpoint`: also before each tool call. `never`: left to the system."""

    checkpoint: bool = True
    """Write the call of a tool before it runs. Off saves a write per call; after a crash a call may
    then have run that the session does not know of."""

    window_seconds: float = 0.2
    """How long events wait to be written together. As much of a turn is lost at most when the
    process dies in the middle of a reply; a shorter window writes more often."""

    def __post_init__(self) -> None:
        if not 0 <= self.window_seconds <= 60:
            raise ValueError(f"window_seconds must be from 0 to 60, not {self.window_seconds:g}")

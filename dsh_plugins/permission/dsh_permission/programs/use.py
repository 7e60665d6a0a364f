"""What a command line does, as far as the program is known."""

from __future__ import annotations

from dataclasses import dataclass, field

from dsh_permission.shell.tree import Word


@dataclass(slots=True)
class Use:
    """What a program does with its words.

    Args:
        reads: Files whose content it reads.
        lists: Files it looks at without reading their content.
        mentions: Words that may be files it reads; only rules that limit look at them.
        writes: Files it makes, changes or removes.
        urls: Addresses it talks to.
        scripts: Shell text it runs.
        code: Text in another language that may run commands.
        read_only: Whether it only reads, all its words being understood.
        file_command: Whether it is one of the plain file commands that `accept_edits` accepts.
        problem: Why it is neither.
        danger: Why an allow rule for its prefix does not cover it.
        is_recursive: Whether it reads all that is below what it reads.
        follows_links: Whether it follows links below what it reads.
        removes: What it removes with all that is below.

    """

    reads: list[Word] = field(default_factory=list)
    lists: list[Word] = field(default_factory=list)
    mentions: list[Word] = field(default_factory=list)
    writes: list[Word] = field(default_factory=list)
    urls: list[Word] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    read_only: bool = False
    file_command: bool = False
    problem: str | None = None
    danger: str | None = None
    is_recursive: bool = False
    follows_links: bool = False
    removes: list[Word] = field(default_factory=list)

"""What the log says about compactions."""

from __future__ import annotations

from dsh_core import EventData, Message, Usage, case


@case("compaction/start")
class CompactionStart(EventData):
    """Room is being made; `trigger` is threshold, overflow or request."""

    trigger: str
    tokens: int
    window_tokens: int | None = None
    focus: str = ""

    @property
    def notice(self) -> str | None:
        """Say how full the window is."""
        of = f" of {self.window_tokens:,}" if self.window_tokens is not None else ""
        return f"compaction: the conversation takes about {self.tokens:,}{of} tokens"


@case("compaction/request")
class CompactionRequest(EventData):
    """A summary was asked for.

    The request had the model, and beside it what the last `request/header` says. Of the first
    `length` messages of the history it held the first `keep_head`, then `messages`, which plugins
    changed, then the last `keep_tail`; and `question` at its end.
    """

    attempt: int
    model: str
    length: int
    question: Message
    keep_head: int
    keep_tail: int = 0
    messages: tuple[Message, ...] = ()

    @property
    def notice(self) -> str | None:
        """Say that it may take a while."""
        again = f", attempt {self.attempt}" if self.attempt > 1 else ""
        return f"compaction: {self.model} summarises {self.length} messages{again} …"


@case("compaction/progress")
class CompactionProgress(EventData):
    """The summary is coming in; every few seconds."""

    characters: int

    @property
    def notice(self) -> str | None:
        """Say how far it is."""
        return f"compaction: {self.characters:,} characters so far …"


@case("compaction/end")
class CompactionEnd(EventData):
    """What came of it.

    `outcome` is compacted, unchanged (there was nothing to do), failed or aborted; `problem` says
    why. A failed one may have shortened tool results: `pruned_results`. `usage` is that of all its
    requests.
    """

    outcome: str
    tokens_before: int
    tokens_after: int
    replaced_messages: int = 0
    pruned_results: int = 0
    problem: str = ""
    usage: Usage | None = None

    @property
    def saved_tokens(self) -> int:
        """What was gained."""
        return self.tokens_before - self.tokens_after

    @property
    def notice(self) -> str | None:
        """Say what was saved, or why nothing was."""
        return f"compaction: {self.text}"

    @property
    def text(self) -> str:
        """The same without the prefix."""
        what = _counted(self.replaced_messages, self.pruned_results)
        saved = f"about {self.tokens_before:,} → {self.tokens_after:,} tokens{what}"
        if self.outcome == "compacted":
            return f"{saved}; {self.problem}" if self.problem else saved
        if self.outcome == "unchanged":
            return f"nothing changed: {self.problem}"
        left = saved if what else "the history is unchanged"
        return f"{self.outcome}: {self.problem}; {left}"


@case("compaction/pin")
class CompactionPin(EventData):
    """The message of event `seq` stays through compactions, or no longer does."""

    seq: int
    is_pinned: bool = True


def _counted(messages: int, results: int) -> str:
    parts = []
    if messages:
        parts.append(f"{messages} message{'s' * (messages != 1)} replaced")
    if results:
        parts.append(f"{results} tool result{'s' * (results != 1)} shortened")
    return f" ({', '.join(parts)})" if parts else ""

"""The line at the bottom: agent, model, mode, how full the context is, what it cost."""

from __future__ import annotations

from rich.cells import cell_len

from dsh_core import Agent, Event, Usage
from dsh_core.cli import printable
from dsh_core.events import UsageEvent
from dsh_terminal import hookspecs


class Spending:
    """What a session's requests took: a fold of its events."""

    def __init__(self) -> None:
        self.total = Usage()
        self.last = Usage()
        self.requests = 0

    def feed(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event.data, UsageEvent):
            self.last = event.data.usage
            self.total = self.total + event.data.usage
            self.requests += 1

    def described(self) -> str:
        """Return what `/usage` says."""
        total = self.total
        return (
            f"{self.requests} requests, {total.total_tokens:,} tokens: "
            f"{total.input_tokens:,} input, {total.cache_read_tokens:,} from the cache, "
            f"{total.cache_write_tokens:,} into it, {total.output_tokens:,} output\n"
            f"the last request took {self.last.total_tokens:,} tokens of the context"
        )


async def modes_of(agent: Agent) -> list[str]:
    """Return what plugins say about the agent, as in `plan`."""
    spec = hookspecs.terminal_status
    if spec.__name__ not in agent.hooks.modes:  # the plugin `terminal` is off
        return []
    answers = await agent.hooks.collect(spec, agent=agent)
    return [str(answer) for _, answer in answers]


def status_words(agent: Agent, spending: Spending, modes: list[str]) -> list[str]:
    """Return the parts of the line, the most important first."""
    words = [agent.name, *modes, agent.options.model or "no model"]
    words += _context(agent, spending)
    if spending.total.total_tokens:
        words.append(f"{short(spending.total.total_tokens)} tokens")
    return [printable(word) for word in words]


def _context(agent: Agent, spending: Spending) -> list[str]:
    used = spending.last.total_tokens
    if not used or agent.options.model is None:
        return []
    window = agent.harness.llm.model_config(agent.options.model).context_window_tokens
    return [f"context {100 * used / window:.0f}%"] if window else [f"context {short(used)}"]


def short(count: int) -> str:
    """Return a number of tokens as people say it."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 100_000 else f"{count / 1000:.0f}k"


def fitted(words: list[str], separator: str, width: int) -> str:
    """Return as many words as fit, from the first on."""
    line = ""
    for word in words:
        longer = f"{line}{separator}{word}" if line else word
        if cell_len(longer) > width:
            break
        line = longer
    return line

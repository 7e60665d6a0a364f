"""Making room in one agent's history, once it is known that room is wanted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from dsh_compaction import hookspecs
from dsh_compaction.choice import Choice, choose, tail_start
from dsh_compaction.errors import CompactionError, TooLargeError
from dsh_compaction.events import CompactionEnd, CompactionStart
from dsh_compaction.meter import Meter, window_of
from dsh_compaction.outline import outline
from dsh_compaction.pruning import prunable
from dsh_compaction.settings import Settings
from dsh_compaction.span import Span
from dsh_compaction.summary import Spent, Summariser
from dsh_compaction.survey import survey
from dsh_compaction.view import MARKER, SUMMARY, View
from dsh_compaction.wording import MARKER as MARKER_TEXT
from dsh_compaction.wording import wrapped
from dsh_core import Agent, Block, HarnessError, Message, PluginError, Text, error_chain
from dsh_core.events import ContextMessage

MAX_ROUNDS = 4
"""How many ranges one run replaces at most, when the whole does not fit one request."""

ROOM_SHARE = 0.9
"""Share of the window that a summary request may fill; the summary itself takes the rest."""

KEPT_SHARE = 0.6
"""Share of the threshold up to which the newest unit stays even where it exceeds `retain`."""

SMALLER_SHARE = 0.75
"""How much of a request that did not fit is tried next."""

WORTH_SHARE = 0.05
"""Share of the window that must have come since the last summary for an automatic compaction: where
less is left to gain, each step would ask for another summary."""


@dataclass(slots=True)
class Run:
    """One compaction under way.

    Args:
        trigger: threshold, overflow or request.
        view: The history as it is now.
        before: What it took at the beginning.
        window: The model's window, None where it is not known.
        focus: What the person wants to be kept above all.
        keep: Tokens of the newest messages that stay.
        largest: Tokens up to which the very newest stay nevertheless.
        room: Tokens that a request about a part may take; None = not known.
        spent: What its requests cost.
        replaced: How many messages were replaced.
        pruned: How many tool results were shortened.
    """

    trigger: str
    view: View
    before: int
    window: int | None
    focus: str = ""
    keep: float = 0.0
    largest: float = 0.0
    room: float | None = None
    spent: Spent = field(default_factory=Spent)
    replaced: int = 0
    pruned: int = 0

    @property
    def limit(self) -> int:
        """The window; where it is not known, what was too much for it."""
        return self.window if self.window is not None else self.before

    @property
    def is_automatic(self) -> bool:
        """Whether nobody asked for it."""
        return self.trigger != "request"

    def choice(self) -> Choice | None:
        """Return what may go and fits a request."""
        return choose(self.view, keep=self.keep, largest=self.largest, room=self.room)

    def smaller_choice(self, choice: Choice) -> Choice | None:
        """Return what to try after a choice that did not fit: a good part of it, or a unit less."""
        size = self.view.tokens_until(choice.stop)
        for room in (SMALLER_SHARE * size, size - 1):
            self.room = room
            smaller = self.choice()
            if smaller is not None:
                return smaller
        return None

    def ended(self, outcome: str, problem: str = "") -> CompactionEnd:
        """Return what came of it."""
        return CompactionEnd(
            outcome,
            self.before,
            self.view.tokens,
            self.replaced,
            self.pruned,
            problem,
            self.spent.usage,
        )


class Compactor:
    """Compacts the history of one agent."""

    def __init__(self, agent: Agent, settings: Settings, meter: Meter):
        self.agent = agent
        self.settings = settings
        self.meter = meter

    async def run(self, trigger: str, *, focus: str = "") -> CompactionEnd:
        """Make room inside the open turn, and return what came of it; the log says the same.

        What fails is reported, and the history is then as it was, except that long tool results may
        have been shortened. Raises only what stops a turn, such as an abort.
        """
        run = await self._begin(trigger, focus)
        start = CompactionStart(trigger, run.before, run.window, focus)
        try:
            self.agent.session.append(start)
            end = await self._shrink(run)
        except HarnessError as error:
            end = run.ended("failed", error_chain(error))
            self._report(error)
        except BaseException as error:
            is_cancelled = isinstance(error, asyncio.CancelledError)
            outcome = ("aborted", "cancelled") if is_cancelled else ("failed", error_chain(error))
            self._end(run.ended(*outcome))
            raise
        self._end(end)
        return end

    async def _begin(self, trigger: str, focus: str) -> Run:
        window = self.meter.window
        refused = (window or 0) if trigger == "overflow" else None
        view = await survey(self.agent, self.meter, refused=refused)
        run = Run(trigger, view, view.tokens, window, focus)
        if trigger != "request":
            run.keep = self.settings.retain * run.limit
            run.largest = KEPT_SHARE * self.settings.threshold * run.limit
        model = self.settings.model
        largest = window_of(self.agent, model) if model else window
        run.room = None if largest is None else ROOM_SHARE * largest
        return run

    def _end(self, end: CompactionEnd) -> None:
        if self.agent.session.open_turn is not None:  # a program that ends may have closed it
            self.agent.session.append_owed(end)

    def _report(self, error: HarnessError) -> None:
        failure = error
        if not isinstance(error, CompactionError):
            failure = CompactionError(error_chain(error))
            failure.__cause__ = error
        self.agent.report_error(failure)

    async def _shrink(self, run: Run) -> CompactionEnd:
        goal = self.settings.threshold * run.limit
        if await self._prune_if_that_helps(run):
            return run.ended("compacted")
        for _ in range(MAX_ROUNDS):
            choice = self._choose(run)
            if choice is None:
                break
            await self._replace(run, choice)
            if run.is_automatic and run.view.tokens < goal:
                break
        if run.is_automatic and run.view.tokens >= goal:
            raise CompactionError(self._too_much(run))
        if run.replaced or run.pruned:
            return run.ended("compacted")
        return run.ended("unchanged", "there is nothing older to summarise")

    def _too_much(self, run: Run) -> str:
        kept = sum(unit.tokens for unit in run.view.units if unit.is_pinned)
        return (
            f"about {run.view.tokens:,} tokens are left, the threshold is "
            f"{round(self.settings.threshold * run.limit):,}: system text and tools take "
            f"{run.view.fixed_tokens:,}, requests and pinned messages {kept:,}"
        )

    # ----------------------------------------------------------------------- pruning

    async def _prune_if_that_helps(self, run: Run) -> bool:
        """Shorten long results where that makes room enough, or a summary needs it.

        A summary is better made of the whole, and with the prefix that the provider has in its
        cache: before one, results stay as they are if the request fits.
        """
        fits = self._fits(run)
        if run.trigger == "request" and fits:
            return False
        cut = tail_start(run.view, keep=run.keep, largest=run.largest)
        events = [*prunable(run.view, self.agent.session.events, self.settings, cut)]
        saved = 0.0
        for pruned in events:
            _, message = run.view.sources[pruned.index]
            saved += await self._tokens(message.content) - await self._tokens(pruned.event.content)
        enough = (self.settings.threshold + self.settings.retain) / 2 * run.limit
        is_enough = run.view.tokens - saved * run.view.scale <= enough
        if not events or not (is_enough or run.trigger == "overflow" or not fits):
            return False
        self._check(run)
        for pruned in events:
            self.agent.session.append(pruned.event)
        run.pruned += len(events)
        await self._look_again(run)
        return is_enough and run.is_automatic

    def _fits(self, run: Run) -> bool:
        """Whether a request about all that may go would fit the window."""
        whole = choose(run.view, keep=run.keep, largest=run.largest)
        return whole is not None and whole == run.choice()

    # --------------------------------------------------------------------- replacing

    def _choose(self, run: Run) -> Choice | None:
        choice = run.choice()
        if choice is None and run.trigger == "overflow" and run.keep:
            run.keep = run.largest = 0.0
            choice = run.choice()
        if choice is not None and run.is_automatic and choice.fresh < WORTH_SHARE * run.limit:
            return None
        return choice

    async def _replace(self, run: Run, choice: Choice) -> None:
        """Put what the strategy says in the place of a choice. Nothing is appended on failure."""
        while True:
            span = choice.span(run.view, run.focus)
            try:
                text = await self._ask_strategy(run, span)
                break
            except TooLargeError:
                smaller = run.smaller_choice(choice)
                if smaller is None:
                    raise
                choice = smaller
        if not text.strip():
            raise CompactionError("the strategy answered with blank text")
        summary = ContextMessage((Text(wrapped(text.strip())),), SUMMARY)
        marker = ContextMessage((Text(MARKER_TEXT),), MARKER)
        new = await self._tokens(summary.content)
        new += (len(choice.segments) - 1) * await self._tokens(marker.content)
        if new >= span.tokens:
            raise CompactionError(
                f"the replacement takes {new:,} tokens, not less than the {span.tokens:,} "
                "it stands for"
            )
        self._check(run)
        self._append(run.view, choice, summary, marker)
        run.replaced += len(span.messages)
        await self._look_again(run)

    def _append(
        self, view: View, choice: Choice, summary: ContextMessage, marker: ContextMessage
    ) -> None:
        """Log the replacements. The summary comes first: a crash after it loses nothing."""
        for place, (start, stop) in enumerate(reversed(choice.segments)):
            first, last = view.sources[start][0], view.sources[stop - 1][0]
            data = marker if place else summary
            self.agent.session.append(
                ContextMessage(data.content, data.source, replaces=(first, last))
            )

    async def _ask_strategy(self, run: Run, span: Span) -> str:
        async def own(agent: Agent, span: Span) -> str:
            if self.settings.strategy == "outline":
                return outline(span)
            try:
                return await Summariser(agent, self.settings, run.spent).write(span)
            except PluginError as error:  # of a hook inside: asking again would not help
                raise CompactionError(str(error)) from error

        return await self.agent.hooks.waterfall(
            hookspecs.compaction_strategy, own, agent=self.agent, span=span
        )

    # ---------------------------------------------------------------------- plumbing

    def _check(self, run: Run) -> None:
        """Refuse to change a history that is not the one that was looked at."""
        if self.agent.session.generation != run.view.generation:
            raise CompactionError("the history was replaced by somebody else meanwhile")

    async def _look_again(self, run: Run) -> None:
        run.view = await survey(self.agent, self.meter, before=run.view)
        self.meter.set(run.view.tokens, len(run.view.sources))

    async def _tokens(self, content: tuple[Block, ...]) -> int:
        return await self.agent.harness.llm.measure(self.agent, (Message("user", content),))

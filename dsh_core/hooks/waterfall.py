"""One waterfall: deciders, `call_next` wrappers and the core's own answer.

Generator wrappers, which go around all of it, are in `dsh_core.hooks.wrappers`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from inspect import CORO_CREATED, getcoroutinestate, isawaitable
from typing import Any, Final, Protocol, TypeAlias

from dsh_core.errors import PluginError
from dsh_core.hooks.blame import AWAIT_IT, blamed, cancel_requests, heed_cancellation, is_stop
from dsh_core.hooks.chain import Chain, Implementation, Values
from dsh_core.hooks.ledger import CORE, Ledger, Place
from dsh_core.request import Draft

Entry: TypeAlias = tuple[Place, Place, float]
"""An implementation's place, who had the turn before, and when it began."""

PASS: Final = object()
"""What an implementation comes to that leaves the answer to the rest."""


class Reports(Protocol):
    """Where a run says what changes nothing for its caller."""

    held_loop_seconds: float

    def report(self, error: PluginError, values: Values) -> None:
        """Report a failure that nobody will raise."""

    def report_slow(self, implementation: Implementation, seconds: float, values: Values) -> None:
        """Report code that held the event loop."""


class Run:
    """One call of a waterfall. Concurrent calls have a run each and share nothing."""

    __slots__ = ("_culprits", "answer", "chain", "ledger", "reports", "values")

    def __init__(
        self,
        chain: Chain,
        answer: Callable[..., Awaitable[Any]],
        reports: Reports,
        values: Values,
        records: list[dict[str, Any]] | None = None,
    ):
        self.chain = chain
        self.answer = answer
        self.reports = reports
        self.values = values
        self._culprits: dict[int, tuple[BaseException, Implementation | None]] | None = None
        draft = values.get(chain.mode.draft) if chain.mode.draft else None
        self.ledger = (
            Ledger(draft if isinstance(draft, Draft) else None, records)
            if records is not None or draft is not None
            else None
        )

    async def start(self) -> Any:
        """Run the whole chain. What a plugin raised leaves as an error that names it."""
        requests = cancel_requests()
        try:
            result = await self.whole()
        except BaseException as error:
            edge = self.at_edge(error)
            if edge is error:
                raise
            raise edge from edge.__cause__
        if cancel_requests() > requests:
            await heed_cancellation(requests)
        return result

    async def whole(self) -> Any:
        """Run everything there is."""
        return await self.go_on(0, self.values)

    async def go_on(self, index: int, values: Values) -> Any:
        """Ask the implementations from `index` on, then the core."""
        plain = self.chain.plain
        while index < len(plain):
            implementation = plain[index]
            index += 1
            result = await self.ask(implementation, index, values)
            if result is not PASS:
                return result
        return await self.own_answer(values)

    async def ask(self, implementation: Implementation, following: int, values: Values) -> Any:
        """Ask one implementation; `following` is the index of the next one."""
        if implementation.wraps:
            return await self._around(implementation, following, values)
        entry = self.enter(implementation) if self.ledger is not None else None
        result: Any = PASS
        try:
            answered = (
                implementation.call(values)
                if implementation.is_async
                else self.timed(implementation, values)
            )
            if implementation.is_async or (answered is not None and isawaitable(answered)):
                answered = await answered
            if answered is not None:
                result = self.accepted(implementation, answered, values)
        except BaseException as error:
            self.blame(error, implementation)
            raise
        finally:
            if entry is not None:
                self.leave(entry, decided=result is not PASS, result=result)
        return result

    async def _around(self, implementation: Implementation, following: int, values: Values) -> Any:
        gate = Gate()
        inner: Any = PASS

        async def proceed(changes: Values) -> Any:
            nonlocal inner
            gate.check()
            replaced = self.replace(values, changes)
            before = self.switch(CORE)
            try:
                inner = await self.go_on(following, replaced)
            finally:
                self.switch(before)
            return inner

        def call_next(**changes: Any) -> Awaitable[Any]:
            return gate.hand_out(proceed(changes))

        entry = self.enter(implementation) if self.ledger is not None else None
        result: Any = PASS
        try:
            answered = await implementation.call_around(values, call_next)
            gate.close(answered)
            if answered is not None or gate.was_used or self._may_be_none():
                result = self.accepted(implementation, answered, values, inner)
        except BaseException as error:
            self.blame(error, implementation)
            raise
        finally:
            gate.shut()
            if entry is not None:
                decided = result is not PASS and result is not inner
                was = None if inner is PASS else inner
                self.leave(entry, decided=decided, result=result, inner=was)
        return result

    async def own_answer(self, values: Values) -> Any:
        """Ask the core."""
        before = self.switch(CORE)
        try:
            return await self.answer(**values)
        except BaseException as error:
            self.blame(error, None)
            raise
        finally:
            self.switch(before)

    # ------------------------------------------------------------------------ values

    def replace(self, values: Values, changes: Values) -> Values:
        """Apply `call_next(name=value)`. Raises `TypeError` for what may not be replaced."""
        if not changes:
            return values
        mode = self.chain.mode
        for name, value in changes.items():
            if name not in mode.replaceable:
                allowed = ", ".join(sorted(mode.replaceable)) or "nothing"
                raise TypeError(
                    f"call_next cannot replace `{name}` in {self.chain.hook}; "
                    f"replaceable: {allowed}"
                )
            self._check_replacement(name, values[name], value)
            if self.ledger is not None:
                if name == mode.draft:
                    self.ledger.adopt(value, values[name])
                else:
                    self.ledger.note_replaced(name, values[name], value)
        return {**values, **changes}

    def _check_replacement(self, name: str, old: Any, new: Any) -> None:
        mode = self.chain.mode
        if name == mode.draft:
            fits = isinstance(new, type(old))
        else:
            fits = not isinstance(old, mode.returns) or isinstance(new, mode.returns)
        if not fits:
            raise TypeError(f"`{name}` must be a {type(old).__name__}, not {_shown(new)}")

    def accepted(
        self, implementation: Implementation, result: Any, values: Values, inner: Any = PASS
    ) -> Any:
        """Check the type of a result, and attribute a new draft to its maker."""
        mode = self.chain.mode
        if mode.returns and not isinstance(result, mode.returns):
            wanted = " or ".join(kind.__name__ for kind in mode.returns if kind is not type(None))
            said = f"returned {_shown(result)}, not {wanted}{self._hint(implementation, result)}"
            raise PluginError(implementation.plugin, self.chain.hook, said)
        if self.ledger is not None and isinstance(result, Draft) and mode.draft:
            self.ledger.adopt(result, inner if isinstance(inner, Draft) else values[mode.draft])
        return result

    def _hint(self, implementation: Implementation, result: Any) -> str:
        if result is None and implementation in self.chain.wrappers:
            return "; a wrapper returns the result it got from `yield`"
        if result is None and implementation.wraps:
            return "; a wrapper returns what `await call_next()` gave it"
        return ""

    def _may_be_none(self) -> bool:
        """Whether None is an answer of this hook, which a wrapper may give in veto."""
        return type(None) in self.chain.mode.returns

    # ----------------------------------------------------------------- whose turn it is

    def enter(self, implementation: Implementation) -> Entry | None:
        """Attribute what happens from here on to an implementation."""
        if self.ledger is None:
            return None
        place = self.ledger.begin(implementation.plugin)
        return place, self.ledger.switch(place), time.perf_counter()

    def leave(
        self,
        entry: Entry | None,
        *,
        decided: bool = False,
        result: Any = None,
        inner: Any = None,
    ) -> None:
        """Give attribution back to who had it before `enter`.

        `result` is what the implementation decided, in the place of `inner`, if there was one.
        """
        if entry is not None and self.ledger is not None:
            place, before, started = entry
            seconds = time.perf_counter() - started  # without what telling the changes takes
            self.ledger.switch(before)
            self.ledger.end(place, seconds, decided=decided, result=result, inner=inner)

    def switch(self, place: Place | None) -> Place | None:
        """Attribute what happens from here on to a place; return the one before."""
        if place is None or self.ledger is None:
            return None
        return self.ledger.switch(place)

    def timed(self, implementation: Implementation, values: Values) -> Any:
        """Call a function that runs at once, and report it when it held the loop."""
        started = time.perf_counter()
        result = implementation.call_at_once(values)
        self.check_held(implementation, started)
        return result

    def check_held(self, implementation: Implementation, started: float) -> None:
        """Report an implementation that held the loop since `started`."""
        held = time.perf_counter() - started
        if held > self.reports.held_loop_seconds:
            self.reports.report_slow(implementation, held, self.values)

    # ------------------------------------------------------------------------- blame

    def blame(self, error: BaseException, culprit: Implementation | None) -> None:
        """Remember who raised an error first, None = the core; frames it passes are innocent."""
        if self._culprits is None:
            self._culprits = {}
        self._culprits.setdefault(id(error), (error, culprit))

    def at_edge(self, error: BaseException) -> BaseException:
        """Return what leaves the chain for an error inside it."""
        culprit = (self._culprits or {}).get(id(error), (error, None))[1]
        if culprit is None or is_stop(error):
            return error
        return blamed(culprit, error, self.chain.mode.on_error)


class Gate:
    """Whether `call_next` may still be called, and whether it was."""

    __slots__ = ("_given", "is_open", "was_used")

    def __init__(self) -> None:
        self.is_open = True
        self.was_used = False
        self._given: list[Coroutine[Any, Any, Any]] = []

    def hand_out(self, call: Coroutine[Any, Any, Any]) -> Awaitable[Any]:
        """Return a call for the hook to await; `shut` closes what it does not."""
        self._given.append(call)
        return call

    def close(self, answered: Any) -> None:
        """End the hook's turn. Raises `TypeError` when it forgot to await, which changes a result.

        `answered` is what the hook returned.
        """
        if self.shut() or any(answered is call for call in self._given):
            raise TypeError(f"the coroutine of `call_next()` was not awaited; {AWAIT_IT}")

    def shut(self) -> bool:
        """Let nobody in any more; return whether calls were left that nobody awaited."""
        self.is_open = False
        left = [call for call in self._given if getcoroutinestate(call) == CORO_CREATED]
        for call in left:
            call.close()
        return bool(left)

    def check(self) -> None:
        """Raise `RuntimeError` once the hook has returned."""
        if not self.is_open:
            raise RuntimeError("call_next was called after the hook returned")
        self.was_used = True


def _shown(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"

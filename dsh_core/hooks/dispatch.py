"""Calling hooks: one typed method per mode, over chains compiled from pluggy.

The spec function itself is the key, so `mypy --strict` checks arguments and result of every call.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from inspect import isawaitable, iscoroutine
from types import ModuleType
from typing import Any, ParamSpec, TypeAlias, TypeVar

from dsh_core.errors import PluginError, error_chain
from dsh_core.hooks.blame import (
    CANCELLED_ITSELF,
    as_plugin_error,
    cancel_requests,
    heed_cancellation,
    is_stop,
    raise_blamed,
    undo_cancellation,
)
from dsh_core.hooks.chain import Chain, Implementation, Values
from dsh_core.hooks.failures import Failures
from dsh_core.hooks.registry import HookRegistry
from dsh_core.hooks.said import SaidInTurn
from dsh_core.hooks.streams import StreamChain, StreamRun
from dsh_core.hooks.stuck import bar
from dsh_core.hooks.waiting import CLEANUP_SECONDS, DeadlineError, all_at_once, within
from dsh_core.hooks.waterfall import Run
from dsh_core.hooks.wrappers import WrappedRun
from dsh_core.marks import MODE_ATTRIBUTE, Mode, OnError, mode_of

P = ParamSpec("P")
R = TypeVar("R")

Reporter: TypeAlias = Callable[[PluginError, Mapping[str, Any]], None]
"""Takes a failure that changes nothing, and the arguments of the hook it happened in."""

Tracer: TypeAlias = Callable[[str, float, tuple[Mapping[str, Any], ...], Mapping[str, Any]], None]
"""Takes hook name, seconds, who ran, and the hook's arguments, once per waterfall."""

HELD_LOOP_SECONDS = 0.05
"""Longer than this, a person sees the stream stutter."""

log = logging.getLogger("dsh.hooks")


class Hooks(HookRegistry):
    """All hooks of one plugin manager.

    `Exception` is contained, and so are `SystemExit` and a cancellation nobody asked for; a
    requested cancellation and Ctrl-C stop at once. The first failure of a call takes the effect of
    the hook's policy, further ones are reported.

    Args:
        report: Where failures with policy REPORT go.
        rank: Plugin name → its place in the asked order; lower is asked first.
        tracer: Where waterfalls are recorded; None records nothing.
        held_loop_seconds: A sync implementation that takes longer is reported.
        slow: Who was reported for that already; may be shared.

    """

    def __init__(
        self,
        report: Reporter,
        rank: Callable[[str], int],
        *,
        tracer: Tracer | None = None,
        held_loop_seconds: float = HELD_LOOP_SECONDS,
        slow: set[tuple[str, str]] | None = None,
    ):
        super().__init__(rank)
        self.tracer = tracer
        self.held_loop_seconds = held_loop_seconds
        self._report = report
        self._slow: set[tuple[str, str]] = set() if slow is None else slow
        self._said = SaidInTurn()

    # ----------------------------------------------------------------- notifications

    def emit(self, spec: Callable[P, None], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Notify, synchronously. Everyone is called; then the first failure takes its effect."""
        chain = self._chains.get(spec.__name__) or self._chain_of(spec)
        if chain.plain:
            self._emit(chain, chain.plain, chain.named(args, kwargs) if args else kwargs)

    def emit_only(
        self,
        plugins: Collection[str],
        spec: Callable[P, None],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Notify some plugins only, synchronously, as `emit` does."""
        chain = self._chain_of(spec)
        self._emit(chain, _of(plugins, chain), chain.named(args, kwargs))

    def emit_from(
        self, plugin: str, spec: Callable[P, None], /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Notify one plugin, synchronously. Raises what it raises, naming it."""
        self.collect_from(plugin, spec, *args, **kwargs)

    def _emit(
        self, chain: Chain, implementations: Iterable[Implementation], values: Values
    ) -> None:
        failures: Failures | None = None
        for implementation in implementations:
            try:
                result = self._timed(implementation, values)
                if result is not None and isawaitable(result):
                    _refuse(result)
            except BaseException as error:  # noqa: BLE001 - contained by policy
                failures = failures or Failures(chain, values, self)
                failures.add(implementation, error)
        if failures is not None:
            failures.take_effect()

    async def notify(
        self, spec: Callable[P, Awaitable[None]], /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Notify, one after another. Everyone is called; then the first failure takes effect."""
        chain = self._chains.get(spec.__name__) or self._chain_of(spec)
        if chain.plain:
            await self._notify(chain, chain.plain, chain.named(args, kwargs))

    async def notify_only(
        self,
        plugins: Collection[str],
        spec: Callable[P, Awaitable[None]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Notify some plugins only, as the instances that stand in for others."""
        await self.notifier(plugins, spec)(*args, **kwargs)

    def notifier(
        self, plugins: Collection[str], spec: Callable[P, Awaitable[None]]
    ) -> Callable[P, Awaitable[None]]:
        """Return what notifies some plugins as they are now, also when they are gone by then."""
        chain = self._chain_of(spec)
        implementations = _of(plugins, chain)

        async def notify(*args: P.args, **kwargs: P.kwargs) -> None:
            await self._notify(chain, implementations, chain.named(args, kwargs))

        return notify

    async def _notify(
        self, chain: Chain, implementations: Iterable[Implementation], values: Values
    ) -> None:
        failures: Failures | None = None
        requests = cancel_requests()
        for implementation in implementations:
            try:
                await self._awaited(implementation, chain.mode, values, requests)
            except BaseException as error:  # noqa: BLE001 - contained by policy
                failures = failures or Failures(chain, values, self)
                failures.add(implementation, error)
        if failures is not None:
            failures.take_effect()

    async def parallel(
        self, spec: Callable[P, Awaitable[None]], /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Notify all at once and wait for all."""
        chain = self._chains.get(spec.__name__) or self._chain_of(spec)
        values = chain.named(args, kwargs)
        if len(chain.plain) < 2:
            await self._notify(chain, chain.plain, values)
            return
        raised, stop = await all_at_once(
            [partial(self._awaited, one, chain.mode, values, 0) for one in chain.plain]
        )
        failures = Failures(chain, values, self)
        for implementation, error in zip(chain.plain, raised, strict=True):
            if error is not None:
                failures.add(implementation, error)
        if stop is not None:
            failures.stop(stop)
        failures.take_effect()

    # ----------------------------------------------------------------------- answers

    async def collect(
        self, spec: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[tuple[str, R | PluginError]]:
        """Return all answers that are not None, each with its plugin, in call order.

        With policy DENY an implementation that raises, or takes too long, answers with its
        `PluginError`, which is reported too; with REPORT it is reported and gives no answer; with
        any other policy the first failure is raised.
        """
        chain = self._chains.get(spec.__name__) or self._chain_of(spec)
        values = chain.named(args, kwargs)
        answers: list[tuple[str, R | PluginError]] = []
        requests = cancel_requests()
        for implementation in chain.plain:
            try:
                answer = await self._awaited(implementation, chain.mode, values, requests)
            except BaseException as error:
                policy = chain.mode.on_error
                if is_stop(error):
                    raise
                if policy not in (OnError.DENY, OnError.REPORT):
                    raise_blamed(implementation, error, policy)
                named = as_plugin_error(implementation, error)
                self.report(named, values)
                answer = named if policy is OnError.DENY else None
            if answer is not None:
                answers.append((implementation.plugin, answer))
        return answers

    def collect_from(
        self, plugin: str, spec: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[R]:
        """Ask one plugin a synchronous hook, as `*_register` are at registration.

        Returns its answers that are not None. Raises what it raises, naming it.
        """
        chain = self._chain_of(spec)
        values = chain.named(args, kwargs)
        answers: list[R] = []
        for implementation in _of((plugin,), chain):
            try:
                answer: R | None = self._timed(implementation, values)
                if answer is not None and isawaitable(answer):
                    _refuse(answer)
            except BaseException as error:
                if is_stop(error):
                    raise
                raise_blamed(implementation, error, chain.mode.on_error)
            if answer is not None:
                answers.append(answer)
        return answers

    async def waterfall(
        self,
        spec: Callable[P, Awaitable[R]],
        answer: Callable[P, Awaitable[R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Ask for a decision or a value; `answer` is the core's own, asked when all passed.

        With policy REPORT a plugin that fails is reported, and the core's answer stands.
        """
        chain = self._chains.get(spec.__name__) or self._chain_of(spec)
        if chain.is_empty:
            return await answer(*args, **kwargs)
        values = chain.named(args, kwargs)
        records: list[dict[str, Any]] | None = None if self.tracer is None else []
        started = time.perf_counter()
        try:
            run = (WrappedRun if chain.wrappers else Run)(chain, answer, self, values, records)
            result: R = await run.start()
        except PluginError as error:
            if chain.mode.on_error is not OnError.REPORT:
                raise
            self.report(error, values)
            return await answer(*args, **kwargs)
        finally:
            self._trace(chain, time.perf_counter() - started, records, values)
        return result

    def stream(
        self,
        spec: Callable[P, Awaitable[AsyncIterator[R]]],
        answer: Callable[P, Awaitable[AsyncIterator[R]]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> StreamRun[R]:
        """Ask for a stream: `async with hooks.stream(…) as items`.

        Leaving the block closes every iterator anybody returned, outermost first.
        """
        chain = self._chains.get(spec.__name__) or self._chain_of(spec)
        values = chain.named(args, kwargs)
        if self.tracer is None or chain.is_empty:
            return StreamRun(StreamChain(chain, answer, self, values), None)
        records: list[dict[str, Any]] = []

        def trace(seconds: float) -> None:
            self._trace(chain, seconds, records, values)

        return StreamRun(StreamChain(chain, answer, self, values, records), trace)

    # ----------------------------------------------------------------------- reports

    def report(self, error: PluginError, values: Mapping[str, Any]) -> None:
        """Report a failure that changes nothing else. Never raises for a reporter that fails.

        What a hook with policy REPORT, or a listener, says again within a turn is only logged, at
        debug level.
        """
        if self._policy(error.hook) in (OnError.REPORT, None) and self._said.has(error, values):
            log.debug("again: %s", error)
            return
        try:
            self._report(error, values)
        except Exception as broken:  # noqa: BLE001 - there is nobody left to tell
            log.warning("%s; reporting it failed: %s", error, error_chain(broken))

    def report_slow(self, implementation: Implementation, seconds: float, values: Values) -> None:
        """Report code that held the event loop, once for each plugin and hook.

        Start-up may hold it: imports take their time, and nobody waits for a stream yet.
        """
        key = (implementation.plugin, implementation.hook)
        if key not in self._slow and self._policy(implementation.hook) is not OnError.START:
            self._slow.add(key)
            held = f"held the event loop for {seconds * 1000:.0f} ms"
            self.report(PluginError(*key, f"{held}; move blocking work to a thread"), values)

    def _trace(
        self,
        chain: Chain,
        seconds: float,
        records: list[dict[str, Any]] | None,
        values: Values,
    ) -> None:
        if self.tracer is None or records is None:
            return
        try:
            self.tracer(chain.hook, seconds, tuple(records), values)
        except Exception as error:  # noqa: BLE001 - watching must not change what is watched
            log.warning("tracing %s failed: %s", chain.hook, error_chain(error))

    # ---------------------------------------------------------------------- plumbing

    def _timed(self, implementation: Implementation, values: Values) -> Any:
        """Call what runs at once, and report it when it held the loop."""
        started = time.perf_counter()
        result = implementation.call_at_once(values)
        held = time.perf_counter() - started
        if held > self.held_loop_seconds:
            self.report_slow(implementation, held, values)
        return result

    async def _awaited(
        self, implementation: Implementation, mode: Mode, values: Values, requests: int
    ) -> Any:
        """Call and await; `requests` says how often the task was asked to cancel before."""
        if implementation.is_async:
            running = implementation.call(values)
        else:
            running = self._timed(implementation, values)
            if running is None or not isawaitable(running):
                if mode.is_checkpoint and cancel_requests() > requests:
                    await undo_cancellation(requests)
                    raise RuntimeError(CANCELLED_ITSELF)
                return running
        if mode.limit_seconds is None:
            result = await running
        else:
            abandoned = partial(self._abandon, implementation, values, requests)
            result = await within(mode.limit_seconds, running, abandoned=abandoned)
        if cancel_requests() > requests:
            await heed_cancellation(requests)
        return result

    def _abandon(
        self, implementation: Implementation, values: Values, requests: int, task: asyncio.Task[Any]
    ) -> None:
        """Keep what goes on after its limit, or an abort, out of the log; report the latter."""
        bar(task, values)
        if cancel_requests() > requests:
            text = f"ignored its cancellation for {CLEANUP_SECONDS:g} s and was abandoned"
            self.report(PluginError(implementation.plugin, implementation.hook, text), values)


def _refuse(awaitable: object) -> None:
    """Raise `TypeError` for a coroutine that nobody would run."""
    if iscoroutine(awaitable):
        awaitable.close()
    raise TypeError("returned an awaitable; the hook is called synchronously")


def _of(plugins: Collection[str], chain: Chain) -> list[Implementation]:
    return [one for one in chain.plain if one.plugin in plugins]


def specs_in(module: ModuleType) -> Iterable[tuple[str, Mode]]:
    """Yield name and mode of the hooks a module declares, in the order of its text."""
    for name, function in vars(module).items():
        if hasattr(function, MODE_ATTRIBUTE):
            yield name, mode_of(function)


__all__ = ["DeadlineError", "Hooks", "Reporter", "Tracer", "specs_in", "within"]

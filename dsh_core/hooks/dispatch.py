"""Calling hooks: one typed method per mode, over chains compiled from pluggy.

The spec function itself is the key, so `mypy --strict` checks arguments and result of every call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from inspect import isawaitable
from types import ModuleType
from typing import Any, ParamSpec, TypeAlias, TypeVar

import pluggy

from dsh_core import hookspecs
from dsh_core.errors import PluginError
from dsh_core.hooks.blame import as_plugin_error, blamed, cancel_requested, is_stop
from dsh_core.hooks.chain import Chain, Implementation, compile_chain
from dsh_core.hooks.check import check_plugin
from dsh_core.hooks.streams import StreamRun
from dsh_core.hooks.waterfall import HELD_LOOP_SECONDS, Run, Values
from dsh_core.marks import MODE_ATTRIBUTE, Mode, OnError, mode_of

P = ParamSpec("P")
R = TypeVar("R")

Reporter: TypeAlias = Callable[[PluginError, Mapping[str, Any]], None]
"""Takes a failure that changes nothing, and the arguments of the hook it happened in."""

Tracer: TypeAlias = Callable[[str, float, tuple[Mapping[str, Any], ...], Mapping[str, Any]], None]
"""Takes hook name, seconds, who ran, and the hook's arguments, once per waterfall."""

PROJECT = "dsh"
CLEANUP_SECONDS = 10.0


class Hooks:
    """All hooks of one plugin manager.

    Args:
        report: Where failures with policy REPORT go.
        rank: Plugin name → its place in the asked order; lower is asked first.
        tracer: Where waterfalls are recorded; None records nothing.

    """

    def __init__(
        self, report: Reporter, rank: Callable[[str], int], *, tracer: Tracer | None = None
    ):
        self.manager = pluggy.PluginManager(PROJECT)
        self.tracer = tracer
        self._report = report
        self._rank = rank
        self._modes: dict[str, Mode] = {}
        self._chains: dict[str, Chain] = {}
        self._slow: set[tuple[str, str]] = set()
        self.add_specs(hookspecs)

    # ------------------------------------------------------------------ registration

    @property
    def modes(self) -> Mapping[str, Mode]:
        """Hook name → mode, plugin-owned hooks too."""
        return self._modes

    def add_specs(self, module: ModuleType) -> None:
        """Add the hooks a module declares. Raises `PluginError` when a name is taken."""
        new = {
            name: mode
            for name, function in vars(module).items()
            if (mode := getattr(function, MODE_ATTRIBUTE, None)) is not None
        }
        for name in new:
            if name in self._modes:
                raise PluginError(module.__name__, name, "this hook exists already")
        self.manager.add_hookspecs(module)
        self._modes.update(new)

    def check(self, plugin: object, name: str) -> None:
        """Raise `PluginError` for an implementation that cannot work."""
        check_plugin(self.manager, plugin, name, self._modes)

    def register(self, plugin: object, name: str) -> None:
        """Register a checked plugin."""
        self.manager.register(plugin, name)
        self._chains.clear()

    def unregister(self, name: str) -> None:
        """Take a plugin's implementations out of every chain; running calls keep theirs."""
        self.manager.unregister(name=name)
        self._chains.clear()

    def chain(self, name: str) -> Chain:
        """Return a hook's compiled chain."""
        chain = self._chains.get(name)
        if chain is None:
            caller: pluggy.HookCaller = getattr(self.manager.hook, name)
            chain = self._chains[name] = compile_chain(caller, self._modes[name], self._rank)
        return chain

    def has(self, spec: Callable[..., Any]) -> bool:
        """Whether anybody implements the hook: one dictionary look-up, for hot paths."""
        return not self.chain(spec.__name__).is_empty

    # ----------------------------------------------------------------------- calling

    def emit(self, spec: Callable[P, None], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Notify, synchronously. Everyone is called; then the first failure takes its effect."""
        chain = self.chain(spec.__name__)
        first: BaseException | None = None
        for implementation in chain.plain:
            try:
                self._timed(implementation, kwargs)
            except BaseException as error:
                if is_stop(error):
                    raise
                first = self._contain(chain, implementation, error, kwargs, first)
        if first is not None:
            raise first

    def emit_only(
        self,
        plugins: Collection[str],
        spec: Callable[P, None],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Notify some plugins only, synchronously; failures are reported."""
        chain = self.chain(spec.__name__)
        for implementation in chain.plain:
            if implementation.plugin in plugins:
                try:
                    self._timed(implementation, kwargs)
                except BaseException as error:
                    if is_stop(error):
                        raise
                    named = as_plugin_error(implementation.plugin, chain.hook, error)
                    self.report(named, kwargs)

    def emit_from(
        self, plugin: str, spec: Callable[P, None], /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Notify one plugin, synchronously. Raises what it raises, naming it."""
        chain = self.chain(spec.__name__)
        for implementation in chain.plain:
            if implementation.plugin == plugin:
                try:
                    self._timed(implementation, kwargs)
                except BaseException as error:
                    if is_stop(error):
                        raise
                    raise blamed(plugin, chain.hook, error) from error

    async def notify(
        self, spec: Callable[P, Awaitable[None]], /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Notify, one after another. Everyone is called; then the first failure takes effect."""
        chain = self.chain(spec.__name__)
        first: BaseException | None = None
        for implementation in chain.plain:
            try:
                await self._awaited(implementation, chain.mode, kwargs)
            except BaseException as error:
                if is_stop(error):
                    raise
                first = self._contain(chain, implementation, error, kwargs, first)
        if first is not None:
            raise first

    async def notify_only(
        self,
        plugins: Collection[str],
        spec: Callable[P, Awaitable[None]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Notify some plugins only, as the instances that stand in for others."""
        chain = self.chain(spec.__name__)
        for implementation in chain.plain:
            if implementation.plugin not in plugins:
                continue
            try:
                await self._awaited(implementation, chain.mode, kwargs)
            except BaseException as error:
                if is_stop(error):
                    raise
                failure = self._contain(chain, implementation, error, kwargs, None)
                if failure is not None:
                    raise failure from error

    async def parallel(
        self, spec: Callable[P, Awaitable[None]], /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Notify all at once and wait for all."""
        chain = self.chain(spec.__name__)
        if chain.is_empty:
            return
        calls = [self._awaited(one, chain.mode, kwargs) for one in chain.plain]
        results = await asyncio.gather(*calls, return_exceptions=True)
        first: BaseException | None = None
        for implementation, result in zip(chain.plain, results, strict=True):
            if isinstance(result, BaseException):
                if isinstance(result, KeyboardInterrupt):
                    raise result
                first = self._contain(chain, implementation, result, kwargs, first)
        if first is not None:
            raise first

    async def collect(
        self, spec: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[tuple[str, R | PluginError]]:
        """Return all answers that are not None, each with its plugin, in call order.

        With policy DENY an implementation that raises, or takes too long, answers with its
        `PluginError`, which is reported too; with any other policy the first failure is raised.
        """
        chain = self.chain(spec.__name__)
        answers: list[tuple[str, R | PluginError]] = []
        for implementation in chain.plain:
            try:
                answer = await self._awaited(implementation, chain.mode, kwargs)
            except BaseException as error:
                if is_stop(error):
                    raise
                if chain.mode.on_error is not OnError.DENY:
                    raise blamed(implementation.plugin, chain.hook, error) from error
                answer = as_plugin_error(implementation.plugin, chain.hook, error)
                self.report(answer, kwargs)
            if answer is not None:
                answers.append((implementation.plugin, answer))
        return answers

    def collect_from(
        self, plugin: str, spec: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R | None:
        """Ask one plugin a synchronous collect hook, as `*_register` are at registration."""
        chain = self.chain(spec.__name__)
        for implementation in chain.plain:
            if implementation.plugin == plugin:
                try:
                    answer: R | None = self._timed(implementation, kwargs)
                except BaseException as error:
                    if is_stop(error):
                        raise
                    raise blamed(plugin, chain.hook, error) from error
                return answer
        return None

    async def waterfall(
        self,
        spec: Callable[P, Awaitable[R]],
        answer: Callable[P, Awaitable[R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Ask for a decision or a value; `answer` is the core's own, asked when all passed."""
        chain = self.chain(spec.__name__)
        if chain.is_empty:
            return await answer(*args, **kwargs)
        values: Values = kwargs
        if self.tracer is None:
            result: R = await Run(chain, answer, self._report_slow, None).start(values)
            return result
        records: list[dict[str, Any]] = []
        started = time.perf_counter()
        try:
            result = await Run(chain, answer, self._report_slow, records).start(values)
        finally:
            self.tracer(chain.hook, time.perf_counter() - started, tuple(records), kwargs)
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
        chain = self.chain(spec.__name__)
        records: list[dict[str, Any]] | None = [] if self.tracer and not chain.is_empty else None
        return StreamRun(chain, answer, self._report_slow, records, kwargs, self.tracer)

    def report(self, error: PluginError, values: Mapping[str, Any]) -> None:
        """Report a failure that changes nothing else."""
        self._report(error, values)

    # ---------------------------------------------------------------------- plumbing

    def _timed(self, implementation: Implementation, values: Values) -> Any:
        started = time.perf_counter()
        result = implementation.call(values)
        held = time.perf_counter() - started
        if held > HELD_LOOP_SECONDS:
            self._report_slow(implementation, held, values)
        return result

    async def _awaited(self, implementation: Implementation, mode: Mode, values: Values) -> Any:
        result = self._timed(implementation, values)
        if not isawaitable(result):
            return result
        if mode.limit_seconds is None:
            return await result
        return await within(mode.limit_seconds, result)

    def _contain(
        self,
        chain: Chain,
        implementation: Implementation,
        error: BaseException,
        values: Values,
        first: BaseException | None,
    ) -> BaseException | None:
        """Return the failure to raise in the end; report it where it is not the first."""
        if first is None and chain.mode.on_error is not OnError.REPORT:
            return blamed(implementation.plugin, chain.hook, error)
        self.report(as_plugin_error(implementation.plugin, chain.hook, error), values)
        return first

    def _report_slow(
        self,
        implementation: Implementation,
        seconds: float,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        key = (implementation.plugin, implementation.function.__name__)
        if key in self._slow:
            return
        self._slow.add(key)
        text = f"held the event loop for {seconds * 1000:.0f} ms; move blocking work to a thread"
        self.report(PluginError(*key, text), values or {})


class DeadlineError(TimeoutError):
    """`within` gave up waiting."""


async def within(seconds: float, awaitable: Awaitable[R]) -> R:
    """Await for at most `seconds`, also what ignores its cancellation.

    Raises `DeadlineError`; the abandoned work is cancelled and no longer waited for. When the
    caller is cancelled, the work is too, and gets `CLEANUP_SECONDS` to end.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task}, timeout=CLEANUP_SECONDS)
        raise
    if not task.done():
        task.cancel()
        raise DeadlineError(f"took more than {seconds:g} s")
    return task.result()


def specs_in(module: ModuleType) -> Iterable[tuple[str, Mode]]:
    """Yield name and mode of the hooks a module declares, in the order of its text."""
    for name, function in vars(module).items():
        if hasattr(function, MODE_ATTRIBUTE):
            yield name, mode_of(function)


__all__ = ["DeadlineError", "Hooks", "Reporter", "Tracer", "cancel_requested", "specs_in", "within"]

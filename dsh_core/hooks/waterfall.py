"""One waterfall: generator wrappers, `call_next` wrappers, deciders, and the core's own answer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from inspect import isawaitable
from typing import Any, TypeAlias

from dsh_core.errors import PluginError
from dsh_core.hooks.blame import blamed, is_stop
from dsh_core.hooks.chain import Chain, Implementation
from dsh_core.request import Draft

Values: TypeAlias = dict[str, Any]
SlowReport: TypeAlias = Callable[[Implementation, float], None]
HELD_LOOP_SECONDS = 0.05


class Run:
    """One call of a waterfall. Concurrent calls have a run each and share nothing."""

    __slots__ = ("answer", "chain", "culprit", "draft", "records", "report_slow")

    def __init__(
        self,
        chain: Chain,
        answer: Callable[..., Awaitable[Any]],
        report_slow: SlowReport,
        records: list[dict[str, Any]] | None,
    ):
        self.chain = chain
        self.answer = answer
        self.report_slow = report_slow
        self.records = records
        self.draft = chain.mode.draft
        self.culprit: tuple[BaseException, str | None] | None = None

    async def start(self, values: Values) -> Any:
        """Run the whole chain. What a plugin raised leaves as an error that names it."""
        try:
            if self.chain.wrappers:
                return await self._through_wrappers(values)
            return await self.go_on(0, values)
        except BaseException as error:
            edge = self.at_edge(error)
            if edge is error:
                raise
            raise edge from error

    def at_edge(self, error: BaseException) -> BaseException:
        """Return what leaves the chain for an error inside it."""
        if is_stop(error) or self.culprit is None or self.culprit[0] is not error:
            return error
        plugin = self.culprit[1]
        return error if plugin is None else blamed(plugin, self.chain.hook, error)

    def blame(self, error: BaseException, implementation: Implementation) -> None:
        """Remember who raised an error first; later frames it passes through are innocent."""
        if self.culprit is None or self.culprit[0] is not error:
            self.culprit = (error, implementation.plugin)

    async def go_on(self, index: int, values: Values) -> Any:
        """Ask the implementations from `index` on, then the core."""
        plain = self.chain.plain
        while index < len(plain):
            implementation = plain[index]
            index += 1
            if implementation.wraps:
                return await self._around(implementation, index, values)
            result = await self._ask(implementation, values)
            if result is not None:
                return self._checked(implementation, result)
        return await self._own_answer(values)

    async def _own_answer(self, values: Values) -> Any:
        before = self._writer(values, None)
        try:
            return await self.answer(**values)
        except BaseException as error:
            self.culprit = (error, None)
            raise
        finally:
            self._writer(values, before)

    async def _ask(self, implementation: Implementation, values: Values) -> Any:
        before = self._writer(values, implementation.plugin)
        record = self._begin(implementation, values)
        result = None
        try:
            result = self._timed(implementation, values)
            if isawaitable(result):
                result = await result
        except BaseException as error:
            self.blame(error, implementation)
            raise
        else:
            return result
        finally:
            self._writer(values, before)
            self._end(record, values, decided=result is not None)

    def _timed(self, implementation: Implementation, values: Values) -> Any:
        started = time.perf_counter()
        result = implementation.call(values)
        held = time.perf_counter() - started
        if held > HELD_LOOP_SECONDS:
            self.report_slow(implementation, held)
        return result

    async def _around(self, implementation: Implementation, index: int, values: Values) -> Any:
        is_open = True
        inner: list[Any] = []

        async def call_next(**changes: Any) -> Any:
            if not is_open:
                raise RuntimeError("call_next was called after the hook returned")
            replaced = self.replace(values, changes, implementation)
            before = self._writer(replaced, None)
            try:
                result = await self.go_on(index, replaced)
            finally:
                self._writer(replaced, before)
            inner.append(result)
            return result

        before = self._writer(values, implementation.plugin)
        record = self._begin(implementation, values)
        result = None
        try:
            result = await implementation.function(
                *[values[name] for name in implementation.arguments], call_next=call_next
            )
        except BaseException as error:
            self.blame(error, implementation)
            raise
        else:
            return self._checked(implementation, result)
        finally:
            is_open = False
            self._writer(values, before)
            self._end(record, values, decided=not inner or inner[-1] is not result)

    def replace(self, values: Values, changes: Values, by: Implementation) -> Values:
        """Apply `call_next(name=value)`. Raises `TypeError` for what may not be replaced."""
        if not changes:
            return values
        mode = self.chain.mode
        for name in changes:
            if name not in mode.replaceable:
                allowed = ", ".join(sorted(mode.replaceable)) or "nothing"
                raise TypeError(
                    f"call_next cannot replace `{name}` in {self.chain.hook}; "
                    f"replaceable: {allowed}"
                )
        replaced = {**values, **changes}
        if self.draft is not None and replaced[self.draft] is not values[self.draft]:
            draft = replaced[self.draft]
            if not isinstance(draft, Draft):
                raise TypeError(f"`{self.draft}` must be a {type(values[self.draft]).__name__}")
            draft.adopt(values[self.draft], by.plugin)
        return replaced

    def _checked(self, implementation: Implementation, result: Any) -> Any:
        returns = self.chain.mode.returns
        if returns and not isinstance(result, returns):
            wanted = " or ".join(kind.__name__ for kind in returns if kind is not type(None))
            error = PluginError(
                implementation.plugin,
                self.chain.hook,
                f"returned {_shown(result)}, not {wanted}",
            )
            self.blame(error, implementation)
            raise error
        return result

    def _writer(self, values: Values, writer: str | None) -> str | None:
        """Attribute changes of the draft, if the hook has one; return who wrote before."""
        if self.draft is None:
            return None
        draft = values[self.draft]
        return draft.written_by(writer) if isinstance(draft, Draft) else None

    async def _through_wrappers(self, values: Values) -> Any:
        opened: list[tuple[Implementation, Generator[None, Any, Any]]] = []
        result: Any = None
        error: BaseException | None = None
        try:
            for implementation in self.chain.wrappers:
                opened.append((implementation, self._open(implementation, values)))
            result = await self.go_on(0, values)
        except BaseException as raised:  # noqa: BLE001 - it is thrown into the wrappers
            error = raised
        stop = error if error is not None and is_stop(error) else None
        for implementation, generator in reversed(opened):
            result, error = self._close(implementation, generator, result, error)
        if stop is not None:
            raise stop
        if error is not None:
            raise error
        return result

    def _open(self, implementation: Implementation, values: Values) -> Generator[None, Any, Any]:
        try:
            generator: Generator[None, Any, Any] = self._timed(implementation, values)
            next(generator)
        except StopIteration:
            error = PluginError(implementation.plugin, self.chain.hook, "the wrapper did not yield")
            self.blame(error, implementation)
            raise error from None
        except BaseException as error:
            self.blame(error, implementation)
            raise
        return generator

    def _close(
        self,
        implementation: Implementation,
        generator: Generator[None, Any, Any],
        result: Any,
        error: BaseException | None,
    ) -> tuple[Any, BaseException | None]:
        record = self._begin(implementation, None)
        try:
            if error is None:
                generator.send(result)
            else:
                generator.throw(error)
        except StopIteration as stop:
            try:
                checked = self._checked(implementation, stop.value)
            except PluginError as wrong:
                return None, wrong
            self._end(record, None, decided=stop.value is not result)
            return checked, None
        except BaseException as raised:  # noqa: BLE001 - travels on to the next wrapper
            if raised is not error:
                self.blame(raised, implementation)
            self._end(record, None, decided=raised is not error)
            return None, raised
        generator.close()
        twice = PluginError(implementation.plugin, self.chain.hook, "the wrapper yielded twice")
        self.blame(twice, implementation)
        return None, twice

    def _begin(self, implementation: Implementation, values: Values | None) -> Any:
        if self.records is None:
            return None
        draft = values.get(self.draft) if values is not None and self.draft else None
        record: dict[str, Any] = {"plugin": implementation.plugin}
        self.records.append(record)
        return record, time.perf_counter(), draft.values() if isinstance(draft, Draft) else None

    def _end(self, begun: Any, values: Values | None, *, decided: bool) -> None:
        if begun is None:
            return
        record, started, before = begun
        record["seconds"] = round(time.perf_counter() - started, 6)
        record["changed"] = ()
        record["decided"] = decided
        if before is not None and values is not None and self.draft is not None:
            after = values[self.draft].values()
            record["changed"] = tuple(n for n in before if before[n] is not after[n])


def _shown(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"

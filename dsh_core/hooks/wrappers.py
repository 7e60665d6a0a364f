"""Generator wrappers: `@hookimpl(wrapper=True)` with one `yield`, exactly as in pluggy."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from dsh_core.errors import PluginError
from dsh_core.hooks.blame import as_plugin_error, is_stop
from dsh_core.hooks.chain import Implementation, own_failure
from dsh_core.hooks.waterfall import Entry, Run
from dsh_core.record import record

Outcome: TypeAlias = tuple[Any, BaseException | None]
"""A result, or the error in its place."""


class WrappedRun(Run):
    """A waterfall with generator wrappers around everything else.

    A cancellation somebody asked for, and Ctrl-C, are thrown into every wrapper and raised again
    in the end, whatever the wrappers return; what they raise meanwhile is reported.
    """

    __slots__ = ()

    async def whole(self) -> Any:
        """Open the wrappers outermost first, run the rest, unwind them innermost first."""
        opened: list[_Open] = []
        outcome: Outcome = (None, None)
        try:
            for implementation in self.chain.wrappers:
                opened.append(_Open.of(self, implementation))
            outcome = (await self.go_on(0, self.values), None)
        except BaseException as raised:  # noqa: BLE001 - it is thrown into the wrappers
            outcome = (None, raised)
        stop = _stop_in(outcome)
        for wrapper in reversed(opened):
            outcome = wrapper.close(stop or outcome[1], outcome[0])
            if stop is not None:
                self._report_lost(wrapper.implementation, outcome[1], stop)
            stop = stop or _stop_in(outcome)
        error = stop or outcome[1]
        if error is not None:
            raise error
        return outcome[0]

    def _report_lost(
        self, implementation: Implementation, error: BaseException | None, stop: BaseException
    ) -> None:
        if error is not None and error is not stop and not is_stop(error):
            named = as_plugin_error(implementation, error)
            self.reports.report(named, self.values)


def _stop_in(outcome: Outcome) -> BaseException | None:
    error = outcome[1]
    return error if error is not None and is_stop(error) else None


@record(frozen=False)
class _Open:
    """A wrapper that stands at its `yield`."""

    run: Run
    implementation: Implementation
    generator: Generator[None, Any, Any]
    entry: Entry | None

    @classmethod
    def of(cls, run: Run, implementation: Implementation) -> _Open:
        """Start a wrapper. Raises what it raises, or `PluginError` when it does not yield."""
        entry = run.enter(implementation)
        started = time.perf_counter()
        try:
            generator: Generator[None, Any, Any] = implementation.call(run.values)
            next(generator)
        except StopIteration:
            error = PluginError(implementation.plugin, run.chain.hook, "the wrapper did not yield")
            run.blame(error, implementation)
            run.leave(entry)
            raise error from None
        except BaseException as error:  # noqa: BLE001 - raised again, in its form
            failure = own_failure(error)
            run.blame(failure, implementation)
            run.leave(entry)
            raise failure from failure.__cause__
        run.check_held(implementation, started)
        run.switch(entry and entry[1])
        return cls(run, implementation, generator, entry)

    def close(self, error: BaseException | None, result: Any) -> Outcome:
        """Give the wrapper what came of the rest; return what it makes of it."""
        self.run.switch(self.entry and self.entry[0])
        started = time.perf_counter()
        outcome: Outcome = (None, None)
        try:
            outcome = self._unwound(error, result)
        finally:
            self.run.check_held(self.implementation, started)
            decided = outcome[1] is None and outcome[0] is not result
            self.run.leave(self.entry, decided=decided, result=outcome[0], inner=result)
        return outcome

    def _unwound(self, error: BaseException | None, result: Any) -> Outcome:
        resume: Callable[[], Any] = (
            (lambda: self.generator.send(result))
            if error is None
            else (lambda: self.generator.throw(error))
        )
        try:
            resume()
        except StopIteration as stop:
            returned = stop.value
        except BaseException as raised:  # noqa: BLE001 - travels on to the next wrapper
            failure = raised if raised is error else own_failure(raised)
            self.run.blame(failure, self.implementation)
            return None, failure
        else:
            return None, self._yielded_twice(error)
        return self._accepted(returned, result)  # out here, so that its errors have no context

    def _accepted(self, returned: Any, result: Any) -> Outcome:
        try:
            accepted = self.run.accepted(self.implementation, returned, self.run.values, result)
        except PluginError as wrong:
            self.run.blame(wrong, self.implementation)
            return None, wrong
        return accepted, None

    def _yielded_twice(self, error: BaseException | None) -> BaseException:
        twice = PluginError(
            self.implementation.plugin, self.run.chain.hook, "the wrapper yielded twice"
        )
        twice.__cause__ = error
        try:
            self.generator.close()
        except BaseException as unwilling:  # noqa: BLE001 - it ends, however unwillingly
            if is_stop(unwilling):
                return unwilling
            twice.__cause__ = unwilling
        self.run.blame(twice, self.implementation)
        return twice

"""Compiled chains: a hook's implementations, read from pluggy, in the order dsh calls them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pluggy

from dsh_core.marks import Mode
from dsh_core.record import record

CALL_NEXT = "call_next"
Values: TypeAlias = dict[str, Any]
"""A hook's arguments by name."""


CONTROL = (asyncio.CancelledError, GeneratorExit, StopIteration)
"""What steers the code that awaits, and must not come from code that never waits."""


class SteeringError(RuntimeError):
    """Stands for what steers the code that awaits, on its way to whoever reports it.

    No cancellation and no close can reach code that never waits: there it is a failure as others.
    """


def own_failure(error: BaseException) -> BaseException:
    """Return the error to raise for what code raised that never waits."""
    if not isinstance(error, CONTROL):
        return error
    kind = RuntimeError if isinstance(error, StopIteration) else SteeringError
    failure = kind(f"raised {type(error).__name__}")
    failure.__cause__ = error
    return failure


@record()
class Implementation:
    """One plugin's function for one hook.

    Args:
        plugin: The plugin's name.
        hook: The hook's name.
        function: The function, bound where it is a method.
        arguments: The names it takes, in order.
        wraps: It takes `call_next`.
        is_async: It is an `async def`; calling it runs nothing yet.
        is_generator: It is an async generator function (`llm_stream` only).

    """

    plugin: str
    hook: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    wraps: bool
    is_async: bool
    is_generator: bool

    def call(self, values: Values) -> Any:
        """Call the function with the arguments it asks for."""
        return self.function(*[values[name] for name in self.arguments])

    def call_at_once(self, values: Values) -> Any:
        """Call a function that never waits."""
        try:
            return self.function(*[values[name] for name in self.arguments])
        except CONTROL as error:
            raise own_failure(error) from error

    def call_around(self, values: Values, call_next: Callable[..., Any]) -> Any:
        """Call a function that takes `call_next`."""
        return self.function(*[values[name] for name in self.arguments], call_next=call_next)


@record()
class Chain:
    """All implementations of one hook: generator wrappers outermost, then the others."""

    hook: str
    mode: Mode
    wrappers: tuple[Implementation, ...]
    plain: tuple[Implementation, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nobody implements the hook."""
        return not self.plain and not self.wrappers

    def named(self, arguments: tuple[Any, ...], values: Values) -> Values:
        """Return all arguments by name."""
        if not arguments:
            return values
        return {**dict(zip(self.mode.arguments, arguments, strict=False)), **values}


def compile_chain(
    hook: str, mode: Mode, implementations: Iterable[pluggy.HookImpl], rank: Callable[[str], Any]
) -> Chain:
    """Put a hook's implementations in call order.

    Within one pluggy band (wrapper or plain, tryfirst, none, trylast) lower rank is called first.
    """
    ordered = sorted(implementations, key=lambda impl: (_band(impl), rank(impl.plugin_name)))
    return Chain(
        hook,
        mode,
        tuple(_implementation(hook, impl) for impl in ordered if impl.wrapper),
        tuple(_implementation(hook, impl) for impl in ordered if not impl.wrapper),
    )


def _band(impl: pluggy.HookImpl) -> int:
    if impl.tryfirst:
        return 0
    return 2 if impl.trylast else 1


def _implementation(hook: str, impl: pluggy.HookImpl) -> Implementation:
    function = impl.function
    return Implementation(
        impl.plugin_name,
        hook,
        function,
        tuple(impl.argnames),
        wraps=takes_call_next(function),
        is_async=inspect.iscoroutinefunction(function),
        is_generator=inspect.isasyncgenfunction(function),
    )


def takes_call_next(function: Callable[..., Any]) -> bool:
    """Whether a function has the keyword-only parameter `call_next`."""
    parameter = inspect.signature(function).parameters.get(CALL_NEXT)
    return parameter is not None and parameter.kind is parameter.KEYWORD_ONLY

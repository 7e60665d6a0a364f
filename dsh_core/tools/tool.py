"""A tool: a function the model may call, with its schema, its effects and its limits."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from dsh_core.errors import HarnessError
from dsh_core.policy import Call, Effect
from dsh_core.record import record
from dsh_core.request import ToolSchema

if TYPE_CHECKING:
    from dsh_core.agents import Agent
    from dsh_core.tools.schema import Parameters

F = TypeVar("F", bound=Callable[..., Any])

CONTEXT_PARAMETER = "ctx"
"""A parameter of this name gets the `ToolContext`; the model does not see it."""


class InvalidArgumentsError(HarnessError):
    """Arguments that do not fit a tool's schema; holds every violation."""

    def __init__(self, violations: tuple[str, ...]):
        super().__init__("; ".join(violations))
        self.violations = violations


@record(frozen=False)
class ToolContext:
    """What a tool body may use of its surroundings.

    Args:
        agent: The calling agent.
        cwd: The agent's working directory; relative paths are relative to it.
        call: The call being run.
        readable_roots: Folders outside the workspace that tools may read, such as the spill folder.
        spill_dir: A private folder for output too large for the conversation.
        report_progress: Where `progress` goes.
        cancelled: Set when the call is to stop; sync bodies poll it.

    """

    agent: Agent
    cwd: Path
    call: Call
    readable_roots: tuple[Path, ...]
    spill_dir: Callable[[], Path]
    report_progress: Callable[[str], None]
    cancelled: threading.Event

    @property
    def call_id(self) -> str:
        """The provider's id of the call."""
        return self.call.id

    def progress(self, text: str) -> None:
        """Tell people how far the call is. Safe from any thread; cheap; never raises."""
        self.report_progress(text)


@dataclass(frozen=True)
class Tool:
    """A function the model may call.

    Args:
        name: What the model calls it: letters, digits, `_` and `-`, at most 64.
        description: What it does, for the model.
        function: The body, sync or async. Sync bodies run in a thread of the harness.
        read_only: It changes nothing: calls may run concurrently and in plan mode.
        destructive: It may destroy what cannot be got back.
        network: It talks to other machines.
        timeout_seconds: The body is cancelled after this; None = never.
        inline_limit_bytes: Larger output is spilled to a file; None = the harness's limit.
        schema_override: JSON Schema of the arguments, instead of the function's signature. Then
            the body gets the arguments as they came, checked against the schema.

    """

    name: str
    description: str
    function: Callable[..., Any]
    read_only: bool = False
    destructive: bool = False
    network: bool = False
    timeout_seconds: float | None = None
    inline_limit_bytes: int | None = None
    schema_override: Mapping[str, Any] | None = None

    @cached_property
    def parameters(self) -> Parameters:
        """Schema and validation of the arguments, made when first used."""
        from dsh_core.tools.schema import parameters_from_schema, parameters_of

        if self.schema_override is not None:
            return parameters_from_schema(self.schema_override)
        return parameters_of(self.function, skip=frozenset({CONTEXT_PARAMETER}))

    @cached_property
    def schema(self) -> ToolSchema:
        """The tool as the model sees it."""
        return ToolSchema(self.name, self.description, self.parameters.schema)

    @cached_property
    def is_async(self) -> bool:
        """Whether the body is a coroutine function."""
        return inspect.iscoroutinefunction(inspect.unwrap(self.function))

    @cached_property
    def wants_context(self) -> bool:
        """Whether the body has a `ctx` parameter."""
        return CONTEXT_PARAMETER in inspect.signature(self.function).parameters

    @cached_property
    def declared_effects(self) -> tuple[Effect, ...] | None:
        """Effects that the declaration implies; None = undeclared, which may write."""
        if self.read_only and not self.destructive:
            return (Effect("read"), *((Effect("network"),) if self.network else ()))
        if self.destructive:
            return (Effect("write"), *((Effect("network"),) if self.network else ()))
        return (Effect("network"), Effect("write", certain=False)) if self.network else None

    def bound_to(self, owner: object) -> Tool:
        """Return the tool with its body bound as a method of `owner`."""
        return replace(self, function=self.function.__get__(owner))

    def __get__(self, owner: object, owner_type: type | None = None) -> Tool:
        return self if owner is None else self.bound_to(owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the body directly, as tests do."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    destructive: bool = False,
    network: bool = False,
    timeout_seconds: float | None = None,
    inline_limit_bytes: int | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Any,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function or a method a `Tool`.

    The schema comes from the signature; the docstring's first part is the description, its
    `Args:` section describes the parameters. A parameter `ctx` gets the `ToolContext`.
    """

    def decorate(body: Callable[..., Any]) -> Tool:
        text = description
        if text is None:
            from dsh_core.tools.docstring import summary_of

            text = summary_of(body)
        return Tool(name or body.__name__, text, body, **options)

    return decorate if function is None else decorate(function)

"""The `scripted` adapter: replies from a script, for demos and tests without a network.

It is no model: it says what the script says, whatever it is asked. In `dsh.yaml`::

    providers:
      demo:
        adapter: scripted
        delay_seconds: 0.03
        replies:
          - calls: [{name: bash, arguments: {command: ls}}]
          - {text: "That is a README.", expect: {last_contains: README}}

Which reply comes next: every session (`request.session_id`; None counts as one) has a cursor of
its own and goes through the whole script from its first reply, so agents that share a provider do
not take each other's replies. A reply is used up when its request arrives, whether it is then
played to the end, fails, does not meet its expectation, or is cut off because the stream was
closed. Cursors live as long as the adapter: a session resumed by another process starts over.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any, TypeAlias

from dsh_core.adapters.scripted_expectation import last_message
from dsh_core.adapters.scripted_reply import ScriptedReply, read_reply
from dsh_core.chunks import Chunk
from dsh_core.errors import ConfigError, LlmFailure
from dsh_core.llm.adapter import ProviderConfig
from dsh_core.request import Request

Answer: TypeAlias = str | Mapping[str, Any] | ScriptedReply | Iterable[Chunk] | AsyncIterable[Chunk]
"""A reply as in the script, or the chunks themselves."""

ReplyFunction: TypeAlias = Callable[[Request], Answer | Awaitable[Answer]]
"""Computes a reply; may be async or an async generator of chunks."""

Entry: TypeAlias = str | Mapping[str, Any] | ScriptedReply | ReplyFunction


class ScriptedModel:
    """Plays the entries of a script, one per request.

    Args:
        replies: Texts, mappings as in YAML, `ScriptedReply`, or functions.
        delay_seconds: Pause before every chunk, for show.
        loop: Start over after the last entry.
        source: What the script is called in messages.

    Attributes:
        requests: Every request, in order of arrival.

    Raises:
        ConfigError: An entry has unknown keys or values of a wrong type.
    """

    def __init__(
        self,
        replies: Iterable[Entry] = (),
        *,
        delay_seconds: float = 0.0,
        loop: bool = False,
        source: str = "script",
    ):
        self.requests: list[Request] = []
        self._source = source
        self._delay_seconds = delay_seconds
        self._loop = loop
        self._entries: list[ScriptedReply | ReplyFunction] = [
            entry if callable(entry) else read_reply(entry, f"{source}, reply {number}")
            for number, entry in enumerate(replies, start=1)
        ]
        self._cursors: dict[str | None, int] = {}

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Play the session's next entry.

        Raises `LlmFailure`: `SCRIPT_EXHAUSTED` after the last entry, `SCRIPT_EXPECTATION` when
        `expect` does not hold, `SCRIPT_FUNCTION` for an answer that is none, or the entry's own.
        """
        self.requests.append(request)
        number, entry = self._take(request)
        where = f"{self._source}, reply {(number - 1) % len(self._entries) + 1}"
        async with aclosing(self._chunks(entry, request, number, where)) as chunks:
            async for chunk in chunks:
                await asyncio.sleep(self._delay_seconds)
                yield chunk

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""

    def _take(self, request: Request) -> tuple[int, ScriptedReply | ReplyFunction]:
        """Move the session's cursor; return how many entries it has had, and this one."""
        used = self._cursors.get(request.session_id, 0)
        if not self._entries or (used >= len(self._entries) and not self._loop):
            raise LlmFailure(
                "SCRIPT_EXHAUSTED",
                f"{self._source}: all {len(self._entries)} replies are used up; "
                f"asked last: {last_message(request)}",
            )
        self._cursors[request.session_id] = used + 1
        return used + 1, self._entries[used % len(self._entries)]

    async def _chunks(
        self, entry: ScriptedReply | ReplyFunction, request: Request, number: int, where: str
    ) -> AsyncGenerator[Chunk]:
        answer: Answer = entry if isinstance(entry, ScriptedReply) else await _ask(entry, request)
        match answer:
            case ScriptedReply() | str() | Mapping():
                reply = read_reply(answer, where)
                _check_expectation(reply, request, where)
                for chunk in reply.chunks(request, number):
                    yield chunk
            case AsyncIterable():
                async with AsyncExitStack() as stack:
                    if isinstance(answer, AsyncGenerator):
                        await stack.enter_async_context(aclosing(answer))
                    async for chunk in answer:
                        yield chunk
            case Iterable():
                for chunk in answer:
                    yield chunk
            case _:
                raise LlmFailure(
                    "SCRIPT_FUNCTION",
                    f"{where}: the function returned {type(answer).__name__}; "
                    "expected a text, a mapping, or chunks",
                )


async def _ask(function: ReplyFunction, request: Request) -> Answer:
    answer = function(request)
    return await answer if inspect.isawaitable(answer) else answer


def _check_expectation(reply: ScriptedReply, request: Request, where: str) -> None:
    unmet = list(reply.expect.unmet(request)) if reply.expect else []
    if unmet:
        raise LlmFailure("SCRIPT_EXPECTATION", "\n  ".join([f"{where}:", *unmet]))


def open_scripted(config: ProviderConfig) -> ScriptedModel:
    """Open the adapter for a provider. Its options are exactly one of the first three, and more.

    Options:
        replies: A list of replies, see `ScriptedReply`.
        script: Path of a YAML or JSON file that is such a list, relative to the folder of
            the file that names it.
        function: `module:function`, called with each `Request`; returns a reply or chunks.
        delay_seconds: Pause before every chunk, default 0.
        loop: Start over after the last reply, default false.

    Raises `ConfigError` that names the file and the entry.
    """
    where = f"providers.{config.name}"
    options = config.options
    given = [name for name in _SOURCES if options.get(name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        message = f"expected one of {', '.join(_SOURCES)}, found {found}"
        raise ConfigError(message, where=where, remedy="Give the script in one place.")
    loop = _option(options, "loop", bool, default=False, where=where)
    delay_seconds = _option(options, "delay_seconds", (int, float), default=0, where=where)
    if delay_seconds < 0:
        raise ConfigError("must not be negative", where=f"{where}.delay_seconds")
    source = f"{where}.{given[0]}"
    replies: Sequence[Entry]
    match given[0]:
        case "script":
            path = (config.folder or Path()) / str(options["script"])
            source, replies = str(path), _read_script(path)
        case "function":
            replies, loop = [_import_function(options["function"], source)], True
        case _:
            replies = _as_list(options["replies"], source)
    return ScriptedModel(replies, delay_seconds=delay_seconds, loop=loop, source=source)


_SOURCES = ("replies", "script", "function")


def _option(
    options: Mapping[str, Any],
    name: str,
    kind: type | tuple[type, ...],
    *,
    default: Any,
    where: str,
) -> Any:
    value = options.get(name, default)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        wanted = "true or false" if kind is bool else "a number"
        found = f"{type(value).__name__} {value!r}"
        raise ConfigError(f"expected {wanted}, found {found}", where=f"{where}.{name}")
    return value


def _read_script(path: Path) -> Sequence[Entry]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        remedy = "Give the path relative to the project's folder."
        raise ConfigError(f"cannot be read: {error}", where=str(path), remedy=remedy) from None
    return _as_list(_parse(text, path), str(path))


def _parse(text: str, path: Path) -> Any:
    import yaml

    try:
        return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except json.JSONDecodeError as error:
        raise ConfigError(error.msg, where=f"{path}:{error.lineno}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(problem, where=f"{path}{line}") from None


def _as_list(value: Any, where: str) -> Sequence[Entry]:
    if not isinstance(value, (list, tuple)):
        remedy = "Write each reply as an item: `- text: Hello`."
        found = type(value).__name__
        raise ConfigError(f"expected a list of replies, found {found}", where=where, remedy=remedy)
    return value


def _import_function(name: Any, where: str) -> ReplyFunction:
    module, colon, attribute = str(name).partition(":")
    remedy = "Write `module:function`, with a module that Python can import."
    if not (module and colon and attribute):
        raise ConfigError(f"{name!r} is no function", where=where, remedy=remedy)
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{name}: {error}", where=where, remedy=remedy) from error
    if not callable(function):
        raise ConfigError(f"{name} is {type(function).__name__}", where=where, remedy=remedy)
    found: ReplyFunction = function
    return found

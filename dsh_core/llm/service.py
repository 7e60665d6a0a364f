"""The model service: routes a request to its adapter and gives every reply one form."""

from __future__ import annotations

import difflib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dsh_core import hookspecs
from dsh_core.chunks import Chunk, Finish, ReasoningDelta, TextDelta
from dsh_core.codec import clean_text
from dsh_core.content import Reasoning, Text, ToolCall, ToolResult, text_of
from dsh_core.errors import (
    ConfigError,
    HarnessError,
    LlmFailure,
    PluginError,
    UserError,
    error_chain,
)
from dsh_core.hooks import Hooks, within
from dsh_core.hooks.blame import is_stop
from dsh_core.hooks.streams import StreamRun
from dsh_core.llm.adapter import AdapterFactory, LlmAdapter, ModelConfig, ProviderConfig
from dsh_core.messages import Message
from dsh_core.request import Request
from dsh_core.secrets import Secrets

if TYPE_CHECKING:
    from dsh_core.agents import Agent

log = logging.getLogger("dsh.llm")

CHARACTERS_PER_TOKEN = 4
"""A usual estimate for English and code; exact counting is a plugin's business."""
MESSAGE_OVERHEAD_TOKENS = 4
CLOSE_SECONDS = 30.0
"""How long an adapter may take to close; as long as `harness_stop`."""


class Llm:
    """Adapters, providers and calls.

    Args:
        hooks: The harness's hooks, for calls outside any agent.
        changed: Called after each change of adapters or providers.
        secrets: Learns what the providers hold, and keeps it out of failures; None = its own list.

    """

    def __init__(self, hooks: Hooks, changed: Callable[[], None], secrets: Secrets | None = None):
        self._hooks = hooks
        self._secrets = Secrets() if secrets is None else secrets
        self._changed = changed
        self._factories: dict[str, tuple[str, AdapterFactory]] = {}
        self._providers: dict[str, tuple[str, ProviderConfig]] = {}
        self._open: dict[str, LlmAdapter] = {}
        self._retired: list[LlmAdapter] = []

    # ------------------------------------------------------------------ registration

    def register(self, factory: AdapterFactory, *, owner: str) -> Callable[[], None]:
        """Offer an adapter; returns a disposer. Raises `UserError` when the name is taken."""
        taken = self._factories.get(factory.name)
        if taken is not None:
            raise UserError(f"adapter {factory.name!r} exists already, from {taken[0]!r}")
        entry = (owner, factory)
        self._factories[factory.name] = entry
        self._changed()

        def dispose() -> None:
            if self._factories.get(factory.name) is entry:
                del self._factories[factory.name]
                self._retire(lambda provider: provider.adapter == factory.name)
                self._changed()

        return dispose

    def register_provider(self, provider: ProviderConfig, *, owner: str) -> Callable[[], None]:
        """Add a provider; returns a disposer. Raises `UserError` when the name is taken."""
        if provider.name in self._providers:
            raise UserError(f"provider {provider.name!r} exists already")
        self._secrets.add(*provider.secrets())
        entry = (owner, provider)
        self._providers[provider.name] = entry
        self._changed()

        def dispose() -> None:
            if self._providers.get(provider.name) is entry:
                self._retire(lambda other: other is provider)
                del self._providers[provider.name]
                self._changed()

        return dispose

    def remove_owner(self, owner: str) -> None:
        """Take away everything an owner registered."""
        adapters = {name for name, (other, _) in self._factories.items() if other == owner}
        providers = {name for name, (other, _) in self._providers.items() if other == owner}
        self._retire(lambda p: p.adapter in adapters or p.name in providers)
        for name in adapters:
            del self._factories[name]
        for name in providers:
            del self._providers[name]
        if adapters or providers:
            self._changed()

    def _retire(self, matches: Callable[[ProviderConfig], bool]) -> None:
        """Stop handing out adapters; running calls finish on them."""
        for name in [n for n, (_, p) in self._providers.items() if matches(p) and n in self._open]:
            self._retired.append(self._open.pop(name))

    async def aclose(self) -> None:
        """Close every adapter; one that fails to is reported, and the others are closed."""
        adapters = [*self._open.values(), *self._retired]
        self._open.clear()
        self._retired.clear()
        for adapter in adapters:
            try:
                await within(CLOSE_SECONDS, adapter.aclose())
            except BaseException as error:
                if is_stop(error):
                    raise
                log.warning("an adapter did not close: %s", error_chain(error))

    # ------------------------------------------------------------------------ asking

    @property
    def providers(self) -> Mapping[str, ProviderConfig]:
        """The providers by name."""
        return {name: provider for name, (_, provider) in self._providers.items()}

    def check_providers(self, origins: Mapping[str, str] | None = None) -> None:
        """Raise `ConfigError` for a provider whose adapter or options nobody knows.

        `origins` maps dotted key paths to places, for the message.
        """
        for name, provider in self.providers.items():
            place = f"providers.{name}"
            entry = self._factories.get(provider.adapter)
            if entry is None:
                raise _unknown(
                    "adapter", provider.adapter, self._factories, f"{place}.adapter", origins
                )
            for option in provider.options:
                if option not in entry[1].options:
                    raise _unknown(
                        f"option of {provider.adapter}",
                        option,
                        entry[1].options,
                        f"{place}.{option}",
                        origins,
                    )

    def open_all(self) -> None:
        """Open every provider's adapter, which checks its options; no request is made.

        Raises `ConfigError`.
        """
        for name, provider in self.providers.items():
            if name not in self._open:
                self._open[name] = self._factories[provider.adapter][1].open(provider)

    def default_model(self) -> str | None:
        """Return the first model of the first provider that names one."""
        for name, provider in self.providers.items():
            for model in provider.models:
                return f"{name}/{model}"
        return None

    def model_config(self, route: str) -> ModelConfig:
        """Return what is configured for a route; defaults where nothing is."""
        provider, _, model = route.partition("/")
        entry = self._providers.get(provider)
        return entry[1].model(model) if entry else ModelConfig()

    def stream(self, agent: Agent | None, request: Request) -> StreamRun[Chunk]:
        """Make one attempt: `async with llm.stream(agent, request) as chunks`.

        The request is frozen. Whatever the adapter does, the chunks end with one finish; what a
        plugin raises is raised.
        """
        request.freeze()
        hooks = agent.hooks if agent is not None else self._hooks
        return hooks.stream(hookspecs.llm_stream, self._answer, agent=agent, request=request)

    async def _answer(self, agent: Agent | None, request: Request) -> AsyncIterator[Chunk]:
        return self._attempt(request)

    async def _attempt(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the adapter's chunks; an exception becomes a finish of reason `error`."""
        iterator: AsyncIterator[Chunk] | None = None
        try:
            iterator = self._adapter(request).stream(request)
            async for chunk in iterator:
                kind = type(chunk)
                if kind is not TextDelta and kind is not ReasoningDelta:
                    chunk = self._checked(chunk)
                yield chunk
                if kind is Finish:
                    return
            yield Finish("stop")
        except BaseException as error:
            if is_stop(error):
                raise
            yield self._scrubbed(Finish("error", as_failure(error)))
        finally:
            closer = getattr(iterator, "aclose", None)
            if closer is not None:
                await closer()

    def _checked(self, chunk: object) -> Chunk:
        """Return what an adapter yielded, endings with a failure. Raises for what is no chunk."""
        if not isinstance(chunk, Chunk):
            raise LlmFailure("MALFORMED_RESPONSE", f"the adapter yielded a {type(chunk).__name__}")
        return self._scrubbed(_explained(chunk)) if isinstance(chunk, Finish) else chunk

    def _scrubbed(self, finish: Finish) -> Finish:
        """Blot out secrets that the provider repeated, in the failure and in the request's id."""
        failure, request_id = finish.failure, finish.request_id
        if failure is not None:
            failure.scrub(self._secrets.scrub)
        if request_id is not None and self._secrets.found_in(request_id):
            return replace(finish, request_id=self._secrets.scrub(request_id))
        return finish

    def _adapter(self, request: Request) -> LlmAdapter:
        """Return the open adapter of a route. Raises `LlmFailure` NO_ADAPTER."""
        name = request.provider
        adapter = self._open.get(name)
        if adapter is not None:
            return adapter
        provider = self._providers.get(name)
        if provider is None:
            known = ", ".join(self._providers) or "none"
            raise LlmFailure(
                "NO_ADAPTER",
                f"no provider {name!r} for model {request.model!r}; configured: {known}. "
                f"Add it under `providers:` in dsh.yaml, or name a model of a configured one.",
            )
        factory = self._factories.get(provider[1].adapter)
        if factory is None:
            known = ", ".join(self._factories) or "none"
            raise LlmFailure(
                "NO_ADAPTER",
                f"provider {name!r} wants adapter {provider[1].adapter!r}; installed: {known}",
            )
        adapter = self._open[name] = factory[1].open(provider[1])
        return adapter

    def owner_of(self, route: str) -> str | None:
        """Return the plugin that brought the adapter of a route."""
        provider = self._providers.get(route.partition("/")[0])
        factory = self._factories.get(provider[1].adapter) if provider is not None else None
        return factory[0] if factory is not None else None

    async def measure(self, agent: Agent | None, messages: tuple[Message, ...]) -> int:
        """Estimate the tokens of messages; a plugin that fails leaves the core's estimate."""
        hooks = agent.hooks if agent is not None else self._hooks

        async def estimate(agent: Agent | None, messages: tuple[Message, ...]) -> int:
            return estimate_tokens(messages)

        try:
            return await hooks.waterfall(
                hookspecs.tokens_measure, estimate, agent=agent, messages=messages
            )
        except HarnessError as error:
            if isinstance(error, PluginError):
                hooks.report(error, {"agent": agent})
            return estimate_tokens(messages)


def _unknown(
    what: str,
    word: str,
    known: Iterable[str],
    path: str,
    origins: Mapping[str, str] | None,
) -> ConfigError:
    listed = sorted(known)
    near = difflib.get_close_matches(word, listed, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    place = (origins or {}).get(path)
    return ConfigError(
        f"there is no {what} {word!r}",
        where=f"{place}: {path}" if place else path,
        remedy=f"{hint}Known: {', '.join(listed) or 'none'}.",
    )


def estimate_tokens(messages: tuple[Message, ...]) -> int:
    """Count four characters as a token, plus four tokens for each message."""
    return sum(
        MESSAGE_OVERHEAD_TOKENS + _characters(message) // CHARACTERS_PER_TOKEN
        for message in messages
    )


def _characters(message: Message) -> int:
    count = 0
    for block in message.content:
        match block:
            case Text(text) | Reasoning(text):
                count += len(text)
            case ToolCall(_, name, arguments):
                count += len(name) + len(arguments)
            case ToolResult(_, content):
                count += len(text_of(content))
    return count


def _explained(finish: Finish) -> Finish:
    """Return an ending with the failure that its reason asks for."""
    if finish.failure is None and finish.reason == "error":
        return replace(finish, failure=LlmFailure("UNKNOWN", "the model gave no reason"))
    if finish.failure is None and finish.reason == "aborted":
        return replace(finish, failure=LlmFailure("ABORTED", "the provider aborted the reply"))
    return finish


def as_failure(error: BaseException) -> LlmFailure:
    """Give an adapter's exception the one form; its own failures stay themselves."""
    if isinstance(error, LlmFailure):
        return error
    code = "CONFIG" if isinstance(error, UserError) else "UNKNOWN"
    failure = LlmFailure(code, clean_text(error_chain(error)))
    failure.__cause__ = error
    return failure


__all__ = ["Llm", "as_failure", "estimate_tokens"]

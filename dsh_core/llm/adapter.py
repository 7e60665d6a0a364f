"""What a model adapter is, and what it is told about its provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from dsh_core.chunks import Chunk
from dsh_core.record import record
from dsh_core.request import Request
from dsh_core.secret import Secret
from dsh_core.secrets import secrets_in, secrets_in_url

ReasoningPolicy: TypeAlias = Literal["auto", "send", "drop"]
"""What happens to earlier reasoning in a request. `auto` sends back what assistant messages with
tool calls thought, which DeepSeek's thinking mode requires, and drops the rest."""


@record()
class ModelConfig:
    """What the configuration says about one model.

    Args:
        context_window_tokens: The window, or None where it is not known.
        reasoning: Whether earlier reasoning is sent back.
        parameters: Wire parameters sent with every request to this model.

    """

    context_window_tokens: int | None = None
    reasoning: ReasoningPolicy = "auto"
    parameters: Mapping[str, Any] = field(default_factory=dict)


@record()
class ProviderConfig:
    """What the configuration says about one provider.

    Args:
        name: The part of a route before the slash.
        adapter: The adapter's name, as in `openai_chat`.
        base_url: Where requests go; None = the adapter's default.
        api_key: The key; None = the endpoint needs none.
        key_hint: Where the key was looked for, for the message when it is missing.
        models: What is known of its models, by name.
        options: The adapter's own settings.
        folder: Where relative paths in `options` start: the folder of the file that configures the
            provider; None = the working directory.

    """

    name: str
    adapter: str
    base_url: str | None = field(default=None, repr=False)
    api_key: Secret | None = None
    key_hint: str | None = None
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    folder: Path | None = None

    def model(self, name: str) -> ModelConfig:
        """Return what is known of a model; defaults where nothing is."""
        return self.models.get(name, _UNKNOWN_MODEL)

    def secrets(self) -> Iterator[str]:
        """Yield what must not be written: the key, and what address, options and models hold."""
        if self.api_key is not None:
            yield self.api_key.reveal()
        yield from secrets_in_url(self.base_url or "")
        yield from secrets_in((self.options, self.models))


_UNKNOWN_MODEL = ModelConfig()


class LlmAdapter(Protocol):
    """Speaks one provider's wire format."""

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Make one attempt and yield the reply as it arrives.

        Chunks come in the order of `dsh_core.chunks`: usage before finish, nothing after finish.
        Raises `LlmFailure`, or ends with a finish of reason `error`; retries are the loop's
        business. Closing the iterator ends the request.
        """

    async def aclose(self) -> None:
        """Release connections; no request runs any more."""


@record()
class AdapterFactory:
    """An adapter by name, opened once per provider that names it, when first used.

    `options` names the keys of `ProviderConfig.options` it understands; others are refused when
    the configuration is checked.
    """

    name: str
    open: Callable[[ProviderConfig], LlmAdapter]
    options: frozenset[str] = frozenset()

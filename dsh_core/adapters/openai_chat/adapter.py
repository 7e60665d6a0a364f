"""The adapter: one HTTP request per attempt, its answer handed on as chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator

from dsh_core.adapters.openai_chat.credential import key_setting, read_key
from dsh_core.adapters.openai_chat.endpoint import Endpoint
from dsh_core.adapters.openai_chat.exchange import Exchange
from dsh_core.adapters.openai_chat.options import read_options
from dsh_core.adapters.openai_chat.wire import RequestEncoder
from dsh_core.chunks import Chunk
from dsh_core.llm.adapter import ProviderConfig
from dsh_core.request import Request
from dsh_core.secrets import Secrets

WHOLE_ANSWER_FACTOR = 5
"""How much more silence is allowed where no stream was asked for: all of the generation is silent.
With the default of 120 s it is the 600 s that OpenAI's own SDK allows."""


class OpenAIChat:
    """Speaks chat completions with one endpoint.

    Raises `ConfigError` when the provider lacks a `base_url` or has an option it does not know.
    """

    def __init__(self, provider: ProviderConfig):
        self._provider = provider
        self._options = read_options(provider)
        self._encoder = RequestEncoder(
            system_role=self._options.system_role, include_usage=self._options.include_usage
        )
        self._endpoint: Endpoint | None = None

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Make one attempt and yield the reply as it arrives.

        Raises `LlmFailure`; a failure with a bill (`CONTENT_FILTER`, `EMPTY_RESPONSE`) is a finish
        of reason `error` instead, after the usage. The credential is checked before any request.
        Closing the iterator closes the connection.
        """
        endpoint = self._endpoint = self._endpoint or self._open()
        body = self._encoder.encode(request, self._provider.model(request.model_name))
        idle_seconds = self._options.stream_idle_seconds
        if not request.stream:
            idle_seconds *= WHOLE_ANSWER_FACTOR
        with endpoint.pool.lend() as client:
            exchange = Exchange(endpoint, idle_seconds)
            try:
                reply = await exchange.begin(client, body)
                while await exchange.read():
                    for chunk in reply.out:
                        yield chunk
                for chunk in reply.finish():
                    yield chunk
            finally:
                await exchange.close()

    async def aclose(self) -> None:
        """Close the connections; no request runs any more."""
        if self._endpoint is not None:
            await self._endpoint.pool.aclose()

    def _open(self) -> Endpoint:
        provider = self._provider
        secrets = Secrets(provider.secrets())
        return Endpoint(self._options, read_key(provider), key_setting(provider), secrets)

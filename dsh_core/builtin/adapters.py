"""Built-in plugins that offer the core's adapters; the adapters are imported when first opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_core.llm.adapter import AdapterFactory, LlmAdapter, ProviderConfig
from dsh_core.marks import hookimpl

if TYPE_CHECKING:
    from dsh_core.harness import Harness


class OpenAIChatPlugin:
    """DeepSeek and every other endpoint that speaks OpenAI's chat completions."""

    @hookimpl
    def llm_register(self, harness: Harness) -> list[AdapterFactory]:
        """Offer `openai_chat`."""
        return [AdapterFactory("openai_chat", _open_openai_chat)]


class ScriptedPlugin:
    """The offline model, for demos and tests."""

    @hookimpl
    def llm_register(self, harness: Harness) -> list[AdapterFactory]:
        """Offer `scripted`."""
        return [AdapterFactory("scripted", _open_scripted)]


def _open_openai_chat(provider: ProviderConfig) -> LlmAdapter:
    from dsh_core.adapters.openai_chat import FACTORY

    return FACTORY.open(provider)


def _open_scripted(provider: ProviderConfig) -> LlmAdapter:
    from dsh_core.adapters.scripted import FACTORY

    return FACTORY.open(provider)

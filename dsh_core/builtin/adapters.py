"""Built-in plugins that offer the core's adapters; neither imports an HTTP library before use."""

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
        from dsh_core.adapters.openai_chat import FACTORY

        return [FACTORY]


class ScriptedPlugin:
    """The offline model, for demos and tests."""

    @hookimpl
    def llm_register(self, harness: Harness) -> list[AdapterFactory]:
        """Offer `scripted`."""
        return [SCRIPTED]


def _open_scripted(provider: ProviderConfig) -> LlmAdapter:
    from dsh_core.adapters.scripted import open_scripted  # few programs use it

    return open_scripted(provider)


SCRIPTED = AdapterFactory(
    "scripted",
    _open_scripted,
    frozenset({"replies", "script", "function", "delay_seconds", "loop"}),
)

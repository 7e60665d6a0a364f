"""Chat completions, the protocol of OpenAI that DeepSeek, OpenRouter, vLLM and most others speak.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from dsh_core.adapters.openai_chat.adapter import OpenAIChat
from dsh_core.adapters.openai_chat.options import OPTION_NAMES
from dsh_core.llm.adapter import AdapterFactory

FACTORY = AdapterFactory("openai_chat", OpenAIChat, OPTION_NAMES)
"""What `llm_register` answers for this adapter."""

__all__ = ["FACTORY", "OpenAIChat"]

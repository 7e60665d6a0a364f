"""Models: adapters speak to providers, the service gives their replies one form."""

from __future__ import annotations

from dsh_core.llm.adapter import AdapterFactory, LlmAdapter, ModelConfig, ProviderConfig
from dsh_core.llm.service import Llm

__all__ = ["AdapterFactory", "Llm", "LlmAdapter", "ModelConfig", "ProviderConfig"]

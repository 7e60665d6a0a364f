"""Models: adapters speak to providers, the service gives their replies one form."""

from __future__ import annotations

from dsh_core.llm.adapter import AdapterFactory, LlmAdapter, ModelConfig, ProviderConfig

__all__ = ["AdapterFactory", "LlmAdapter", "ModelConfig", "ProviderConfig"]

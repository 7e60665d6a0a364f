"""dsh: an agent harness with a tiny core.

It calls a model, runs tools and repeats; the rest is plugins.

Everything a plugin or an embedding program needs is importable from here. Names are loaded when
first used, so that `import dsh_core` and `dsh --help` stay quick; `__init__.pyi` tells type
checkers the same list.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "dsh_core.agents": ("Agent AgentFactory AgentOptions Receipt Stash StashKey TurnResult"),
    "dsh_core.agents.hiding": "hide_files is_hidden",
    "dsh_core.chunks": (
        "BlockAssembler BlockEnd BlockStart Chunk Finish ReasoningDelta TextDelta ToolCallDelta "
        "Usage UsageChunk"
    ),
    "dsh_core.cli.context": "CliContext",
    "dsh_core.cli.options": "CliOptions",
    "dsh_core.codec": "case from_json to_json",
    "dsh_core.commands": "SlashCommand",
    "dsh_core.config.files": "user_dir",
    "dsh_core.config.load": "load_config",
    "dsh_core.config.trust": "TrustStore",
    "dsh_core.config.model": "AgentDefinition HarnessConfig Layer",
    "dsh_core.content": "Block Content Image Reasoning Text ToolCall ToolResult text_of",
    "dsh_core.errors": (
        "AgentDisposedError AgentError ConfigError HarnessError LlmFailure PluginError "
        "SessionError ToolError UserError error_chain"
    ),
    "dsh_core.events": "Event EventData TurnEndReason",
    "dsh_core.execution": "Command Executor Process",
    "dsh_core.execution.local": "LocalExecutor",
    "dsh_core.harness": "Harness",
    "dsh_core.hooks": "Hooks",
    "dsh_core.llm": "AdapterFactory LlmAdapter ModelConfig ProviderConfig",
    "dsh_core.marks": "OnError collect emit hookimpl parallel waterfall",
    "dsh_core.messages": "AgentSource Message PluginSource Source UserSource",
    "dsh_core.outcome": "ToolOutput",
    "dsh_core.plugins": "ADD TRUSTED_ONLY UNTRUSTED_OK PluginInfo",
    "dsh_core.policy": (
        "MAY_WRITE Approval ApprovalRequest Call Decision Effect Verdict only_reads plan_refusal"
    ),
    "dsh_core.request": "Assembly Request Retry Section ToolSchema",
    "dsh_core.secret": "Secret",
    "dsh_core.secrets": "Secrets",
    "dsh_core.session": (
        "Session SessionHeader SessionLock SessionPage SessionSummary Store StoredSession "
        "SummaryFold closers summarise"
    ),
    "dsh_core.tools": "Tool ToolContext tool",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted(["__version__", *_HOME_OF])


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

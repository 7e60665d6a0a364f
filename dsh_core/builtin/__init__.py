"""The plugins that come with the core, as `name → module:attribute`, in the order they are asked.

They are ordinary plugins: each can be switched off, and each is short enough to learn from.
"""

from __future__ import annotations

BUILTIN_PLUGINS = {
    "environment": "dsh_core.builtin.environment:Environment",
    "limits": "dsh_core.builtin.limits:Limits",
    "dsml": "dsh_core.builtin.dsml:Dsml",
    "agent_loop": "dsh_core.loop:AgentLoop",
    "retry": "dsh_core.builtin.retry:RetryRequests",
    "openai_chat": "dsh_core.builtin.adapters:OpenAIChatPlugin",
    "scripted": "dsh_core.builtin.adapters:ScriptedPlugin",
}

"""Adapters that come with the core: `openai_chat` for endpoints, `scripted` without one."""

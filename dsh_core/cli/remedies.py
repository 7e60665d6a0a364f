"""What a person can do about a failed turn, by the failure's code."""

from __future__ import annotations

_REMEDIES = {
    "AUTH": "Check the key: `dsh config show` says where it comes from.",
    "QUOTA": "The account has no credit or quota left.",
    "RATE_LIMIT": "Wait, or raise plugins.retry.max_retries and max_retry_after_seconds.",
    "CONTEXT_WINDOW_EXCEEDED": "Start a new session, or install dsh-compaction.",
    "HTTP_404": "Check base_url and the model's name.",
    "TRANSPORT": "Check base_url, the network and proxies.",
    "TIMEOUT": "The model was silent for too long; see stream_idle_seconds of the provider.",
    "MALFORMED_RESPONSE": "Check that base_url leads to a chat-completions endpoint.",
    "CONTENT_FILTER": "The provider refused; asking again in the same words will not help.",
    "SCRIPT_EXHAUSTED": "The offline model has no more replies: add some, or set `loop: true`.",
    "PLUGIN": "Update the plugin, or switch it off: -p no:NAME.",
}


def remedy(code: str) -> str | None:
    """Return one sentence, or None where there is nothing to add."""
    return _REMEDIES.get(code)

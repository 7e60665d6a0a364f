"""The API key, checked before it goes into a header."""

from __future__ import annotations

import re

from dsh_core.errors import LlmFailure
from dsh_core.llm.adapter import ProviderConfig

_QUOTES = "\"'`“”‘’«»"
_PASTED_NAME = re.compile(r"(export\s+)?[A-Za-z_][A-Za-z0-9_]*=(?!=*$)")
"""`NAME=` with something after it that is not the padding of base64."""


def key_setting(provider: ProviderConfig) -> str:
    """Say where the key of a provider is looked for."""
    return provider.key_hint or f"providers.{provider.name}.api_key"


def read_key(provider: ProviderConfig) -> str | None:
    """Return the key without blanks around it; None where the endpoint needs none.

    No key is missing where none was looked for: neither `api_key` nor `key_hint` is set.
    Raises `LlmFailure` `MISSING_CREDENTIAL` or `INVALID_CREDENTIAL`, which name the setting and
    the position of what is wrong and hold nothing of the key.
    """
    if provider.api_key is None and provider.key_hint is None:
        return None
    raw = provider.api_key.reveal() if provider.api_key is not None else ""
    key, setting = raw.strip(), key_setting(provider)
    if not key:
        state = "holds only blanks" if raw else "is not set or empty"
        raise LlmFailure(
            "MISSING_CREDENTIAL", f"no API key for provider {provider.name!r}: {setting} {state}"
        )
    if fault := _fault_of(key, len(raw) - len(raw.lstrip())):
        raise LlmFailure(
            "INVALID_CREDENTIAL", f"the API key of provider {provider.name!r} ({setting}) {fault}"
        )
    return key


def _fault_of(key: str, skipped: int) -> str | None:
    """Say what makes a key unfit for a header; None = nothing. Characters count from 1."""
    if key[0] in _QUOTES or key[-1] in _QUOTES:
        position = skipped + (1 if key[0] in _QUOTES else len(key))
        return f"has a quotation mark at character {position}: leave the quotes out"
    if pasted := _PASTED_NAME.match(key):
        position = skipped + pasted.end()
        return f"begins with a name and '=' at character {position}: give only what follows"
    for position, character in enumerate(key, skipped + 1):
        if not character.isascii():
            return f"has a character that is not ASCII at character {position}"
        if not "!" <= character <= "~":
            return f"has a blank or control character at character {position}"
    return None

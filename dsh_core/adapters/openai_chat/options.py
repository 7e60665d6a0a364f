"""What the configuration says about a chat-completions endpoint, checked once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from dsh_core.errors import ConfigError, LlmFailure
from dsh_core.http import CONNECT_SECONDS
from dsh_core.llm.adapter import ProviderConfig
from dsh_core.secret import Secret

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110, 5.6.2
_PASTED_NAME = re.compile(r"(export\s+)?[A-Za-z_][A-Za-z0-9_]*=(?!=*$)")
_QUOTES = "\"'`“”‘’«»"


@dataclass(frozen=True, slots=True)
class Options:
    """An endpoint's settings.

    Args:
        url: Where requests go.
        headers: Sent with every request; may replace the adapter's own.
        stream_idle_seconds: Silence allowed before and within a reply, keep-alives not counted;
            0 = any. 120 covers a slow prefill and is short enough to wait for.
        connect_seconds: Limit for connecting.
        system_role: `system`, or `developer` as newer OpenAI models prefer.
        include_usage: Whether to ask for `stream_options.include_usage`.
        verify: Whether to check certificates; a path = a file or folder of trusted ones.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    stream_idle_seconds: float = 120.0
    connect_seconds: float = CONNECT_SECONDS
    system_role: str = "system"
    include_usage: bool = True
    verify: bool | str = True


def read_options(provider: ProviderConfig) -> Options:
    """Check what a provider's configuration says.

    Raises `ConfigError` for a missing `base_url`, an unknown option and a value of the wrong kind.
    """
    given = dict(provider.options)
    path = _read(provider, "path", given.pop("path", "/chat/completions"))
    values = {name: _read(provider, name, value) for name, value in given.items()}
    return Options(_join_url(provider, path), **values)


def read_key(provider: ProviderConfig) -> str | None:
    """Return the key as it goes into the header; None where the endpoint needs none.

    Raises `LlmFailure` `MISSING_CREDENTIAL` or `INVALID_CREDENTIAL`, which name the setting and
    the position of what is wrong and hold nothing of the key.
    """
    if provider.api_key is None:
        return None
    raw = provider.api_key.reveal()
    key = raw.strip()
    setting = provider.key_hint or f"providers.{provider.name}.api_key"
    if not key:
        found = "is empty" if not raw else "holds only blanks"
        raise LlmFailure(
            "MISSING_CREDENTIAL", f"no API key for provider {provider.name!r}: {setting} {found}"
        )
    if fault := _fault_of(key, len(raw) - len(raw.lstrip())):
        raise LlmFailure(
            "INVALID_CREDENTIAL", f"the API key of provider {provider.name!r} ({setting}) {fault}"
        )
    return key


def _fault_of(key: str, skipped: int) -> str | None:
    """Say what makes a key unfit for a header; None = nothing. Positions count from 1."""
    if key[0] in _QUOTES or key[-1] in _QUOTES:
        position = skipped + (1 if key[0] in _QUOTES else len(key))
        return f"has a quotation mark at character {position}; leave the quotes out"
    if pasted := _PASTED_NAME.match(key):
        return (
            f"begins with a name and '=' (character {skipped + pasted.end()}); "
            "give only what stands after it"
        )
    for position, character in enumerate(key, skipped + 1):
        if not "!" <= character <= "~":
            kind = "a blank or control character" if character <= " " else "not plain ASCII"
            return (
                f"has {kind} at character {position}"
                if character <= " "
                else (f"is {kind} at character {position}")
            )
    return None


def _join_url(provider: ProviderConfig, path: str) -> str:
    where = f"providers.{provider.name}.base_url"
    if not (provider.base_url or "").strip():
        raise ConfigError(
            "is missing",
            where=where,
            remedy="Set it to the address of the API, as in https://api.deepseek.com",
        )
    parts = urlsplit(provider.base_url.strip())  # type: ignore[union-attr]
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            "is no http or https address",
            where=where,
            remedy="Write it as in https://api.deepseek.com",
        )
    base, path = parts.path.rstrip("/"), "/" + path.strip("/")
    if not base.endswith(path):
        base += path
    return urlunsplit(parts._replace(path=base, fragment=""))


def _read(provider: ProviderConfig, name: str, value: Any) -> Any:
    where = f"providers.{provider.name}.{name}"
    reader = _READERS.get(name)
    if reader is None:
        raise ConfigError(
            "is no option of openai_chat",
            where=where,
            remedy=f"It knows {', '.join(sorted(OPTION_NAMES))}.",
        )
    try:
        return reader(value)
    except ValueError as error:
        raise ConfigError(str(error), where=where) from None


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        raise ValueError("must be a number of seconds, 0 or more")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _role(value: Any) -> str:
    if value not in ("system", "developer"):
        raise ValueError("must be system or developer")
    return str(value)


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value.strip("/ "):
        raise ValueError("must be a path, as in /chat/completions")
    return value


def _verify(value: Any) -> bool | str:
    if not isinstance(value, (bool, str)) or value == "":
        raise ValueError("must be true, false or the path of trusted certificates")
    return value


def _headers(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping of header names to text")
    headers = {}
    for name, content in value.items():
        text = content.reveal() if isinstance(content, Secret) else content
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no header name")
        if not isinstance(text, str):
            raise ValueError(f"header {name} must be text")
        text = text.strip()
        if not (text.isascii() and text.isprintable()):
            raise ValueError(f"header {name} must be printable ASCII")
        headers[name.lower()] = text
    return headers


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "connect_seconds": _seconds,
    "headers": _headers,
    "include_usage": _flag,
    "path": _path,
    "stream_idle_seconds": _seconds,
    "system_role": _role,
    "verify": _verify,
}

OPTION_NAMES = frozenset(_READERS)
"""The options of `openai_chat`."""

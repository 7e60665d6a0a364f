"""What the configuration says about a chat-completions endpoint, checked once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

from dsh_core.errors import ConfigError
from dsh_core.http import CONNECT_SECONDS
from dsh_core.llm.adapter import ProviderConfig
from dsh_core.record import record
from dsh_core.secret import Secret

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110, 5.6.2
_VERSION = re.compile(r"v\d\w*")


@record()
class Options:
    """An endpoint's settings.

    Args:
        url: Where requests go.
        headers: Sent with every request, by lower-case name; they replace the adapter's own.
        stream_idle_seconds: Silence allowed before and within a reply, keep-alives not counted;
            0 = any. 120 covers a slow prefill and is short enough to wait for. Five times as
            much where no stream is asked for.
        connect_seconds: Limit for connecting.
        system_role: `system`, or `developer` as newer OpenAI models prefer.
        include_usage: Whether to ask for `stream_options.include_usage`.
        verify: Whether to check certificates; a path = a file or folder of trusted ones.
    """

    url: str = field(repr=False)
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
    values = {name: _read(provider, name, value) for name, value in provider.options.items()}
    path = values.pop("path", "/chat/completions")
    return Options(_join(_base(provider), path), **values)


def _base(provider: ProviderConfig) -> SplitResult:
    where = f"providers.{provider.name}.base_url"
    remedy = "Set it to the address of the API, as in https://api.deepseek.com"
    text = (provider.base_url or "").strip()
    if not text:
        raise ConfigError("is missing", where=where, remedy=remedy)
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError("is no http or https address", where=where, remedy=remedy)
    return parts


def _join(base: SplitResult, path: str) -> str:
    """Append a path once: not what the address already ends with, no slash and no version twice."""
    have = [part for part in base.path.split("/") if part]
    want = [part for part in path.split("/") if part]
    if have[-len(want) :] == want:
        want = []
    elif have and have[-1] == want[0] and _VERSION.fullmatch(want[0]):
        want = want[1:]
    return urlunsplit(base._replace(path="/" + "/".join([*have, *want]), fragment=""))


def _read(provider: ProviderConfig, name: str, value: Any) -> Any:
    where = f"providers.{provider.name}.{name}"
    reader = _READERS.get(name)
    if reader is None:
        known = ", ".join(sorted(OPTION_NAMES))
        raise ConfigError("is no option of openai_chat", where=where, remedy=f"It knows {known}.")
    try:
        return reader(value)
    except _WrongError as error:
        raise ConfigError(str(error), where=where) from None


class _WrongError(Exception):
    """What is wrong with the value of an option."""


def _limit(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        raise _WrongError("must be a number of seconds; 0 = no limit")
    return float(value)


def _seconds(value: Any) -> float:
    if not _limit(value):
        raise _WrongError("must be a number of seconds above 0")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _WrongError("must be true or false")
    return value


def _role(value: Any) -> str:
    if value not in ("system", "developer"):
        raise _WrongError("must be system or developer")
    return str(value)


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value.strip("/ "):
        raise _WrongError("must be a path, as in /chat/completions")
    return value.strip()


def _verify(value: Any) -> bool | str:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or not Path(value).exists():
        raise _WrongError("must be true, false or the path of trusted certificates")
    return value


def _headers(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise _WrongError("must be a mapping of header names to text")
    headers = {}
    for name, content in value.items():
        text = content.reveal() if isinstance(content, Secret) else content
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise _WrongError(f"{name!r} is no header name")
        if name.lower() == "accept-encoding":
            raise _WrongError(
                "header accept-encoding cannot be set: compressed answers are refused"
            )
        if not (isinstance(text, str) and text.strip().isascii() and text.strip().isprintable()):
            raise _WrongError(f"header {name} must be printable ASCII text")
        headers[name.lower()] = text.strip()
    return headers


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "connect_seconds": _seconds,
    "headers": _headers,
    "include_usage": _flag,
    "path": _path,
    "stream_idle_seconds": _limit,
    "system_role": _role,
    "verify": _verify,
}

OPTION_NAMES = frozenset(_READERS)
"""The options of `openai_chat`."""

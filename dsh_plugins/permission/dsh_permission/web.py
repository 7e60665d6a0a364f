"""Addresses: which host a URL really names, and whether a `domain:` rule covers it."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_STRANGE = re.compile(r"[\s\\%@<>^`{|}\x00-\x20\x7f]")
_NUMERIC = re.compile(r"(?:0x[0-9a-f]+|[0-9]+)(?:\.(?:0x[0-9a-f]+|[0-9]+)){0,3}", re.IGNORECASE)
_LOCAL = ("localhost", ".localhost", ".local", ".internal", ".lan", ".home.arpa")


class BadAddressError(ValueError):
    """A URL that no rule can allow; the message says why."""


def host_of(url: str) -> str:
    """Return the host of an http(s) URL, in its one spelling. Raises `BadAddressError`."""
    if any(ord(character) <= 0x20 or ord(character) == 0x7F for character in url) or "\\" in url:
        raise BadAddressError("it holds a blank, a control character or a backslash")
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        raise BadAddressError(f"it is no URL: {error}") from None
    if parts.scheme.lower() not in ("http", "https"):
        raise BadAddressError(f"{parts.scheme or 'a URL without scheme'} is not http or https")
    if "@" in parts.netloc:
        raise BadAddressError("it holds user information, which hides the host")
    return spelled(host)


def spelled(host: str) -> str:
    """Return a host in lower case, as ASCII, without the last dot. Raises `BadAddressError`."""
    bare = host.strip("[]")
    if not bare or _STRANGE.search(bare):
        raise BadAddressError("its host is no host name")
    try:
        name = bare.lower() if bare.isascii() else bare.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise BadAddressError("its host is no host name") from None
    return name.rstrip(".")


def is_private(host: str) -> bool:
    """Whether a host is this machine, its network, or a number that may be."""
    if host.endswith(_LOCAL) or ("." not in host and ":" not in host):
        return True
    if _NUMERIC.fullmatch(host):
        try:
            return not ipaddress.ip_address(host).is_global
        except ValueError:
            return True
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return False


def covers(pattern: str, host: str) -> bool:
    """Whether `example.com` or `*.example.com` covers a host."""
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern


def compile_domain(spec: str) -> str:
    """Return the pattern of `domain:HOST`. Raises `ValueError` with the reason."""
    kind, colon, pattern = spec.partition(":")
    if kind != "domain" or not colon:
        raise ValueError("a rule for addresses is written `WebFetch(domain:HOST)`")
    pattern = pattern.strip().lower()
    bare = pattern.removeprefix("*.")
    if pattern == "*":
        return pattern
    if "*" in bare or "/" in bare or ":" in bare:
        raise ValueError("a host is wanted, as in `docs.python.org` or `*.example.com`")
    try:
        return ("*." if pattern.startswith("*.") else "") + spelled(bare)
    except BadAddressError as error:
        raise ValueError(str(error)) from None

"""What goes wrong with a request, in the one form of `LlmFailure`.

Codes follow the status first, then the provider's own code and wording; see
https://platform.openai.com/docs/guides/error-codes and
https://api-docs.deepseek.com/quick_start/error_codes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from dsh_core.codec import clean_text
from dsh_core.errors import LlmFailure
from dsh_core.secrets import Secrets

EXCERPT_CHARACTERS = 400
"""How much of a provider's words a message repeats: enough for any real one."""

_QUOTA = re.compile(
    r"insufficient[ _-]?(quota|balance|credit|fund)|exceeded your current quota|quota[ _]exceeded"
    r"|billing_hard_limit|payment required|(out of|not enough|no more|used up) (credit|balance)"
    r"|credits? (used up|exhausted|balance is too low)|balance is (too low|not enough)|in arrears",
    re.IGNORECASE,
)
_CONTEXT = re.compile(
    r"context_length_exceeded|exceed_context_size|context_window_exceeded"  # OpenAI, llama.cpp
    r"|maximum (context|prompt|model) length|reduce the length of the"  # DeepSeek, xAI, vLLM
    r"|(context|prompt) (length|window|size)[^.]{0,60} exceed"
    r"|(exceed|greater than|larger than|too large for)[^.]{0,60} context (length|window|size)"
    r"|exceeds the maximum number of (input )?tokens"  # Gemini
    r"|(prompt|input) is too long|too many (input |prompt )?tokens",  # Anthropic
    re.IGNORECASE,
)
_RATE = re.compile(r"rate[ _-]?limit|too many requests|throttl", re.IGNORECASE)
_AUTH = re.compile(r"invalid_api_key|authentication_error|permission_(error|denied)", re.IGNORECASE)
_INVALID = re.compile(r"invalid_request|bad_request|validation", re.IGNORECASE)
_DEPTH = 8
"""How deep words are looked for; real ones stand four deep, as in `[{error: {message: …}}]`."""

_LOOKED_AT_CHARACTERS = 8192
"""How much of a page or text is searched for what to show."""


class Failures:
    """Makes the failures of one endpoint: names it, and blots out its secrets.

    Args:
        url: The address asked.
        key_setting: Where the key comes from, for a refused one.
        secrets: What must not be repeated.
    """

    def __init__(self, url: str, key_setting: str | None = None, secrets: Secrets | None = None):
        parts = urlsplit(url)
        self.host = parts.netloc.rpartition("@")[2]
        self.url = urlunsplit(parts._replace(netloc=self.host, query="", fragment=""))
        self._key_setting = key_setting
        self._secrets = secrets or Secrets()

    def refused(self, status: int, headers: Mapping[str, str], body: bytes) -> LlmFailure:
        """Map an answer that is not 200."""
        parsed = _parse(body)
        words = self._words(parsed, body)
        code = _code_of_status(status, f"{_code_in(parsed)} {words}")
        place = self.url if status in (404, 405) else self.host
        message = f"{place} answered {status}" + (f": {words}" if words else "")
        if code == "AUTH" and self._key_setting:
            message += f" (the key comes from {self._key_setting})"
        if 300 <= status < 400 and "location" in headers:
            message += f" (it redirects to {self._show(headers['location'].partition('?')[0])})"
        return LlmFailure(
            code,
            message,
            status=status,
            retry_after_seconds=retry_after_seconds(headers),
            request_id=self.request_id(headers),
        )

    def reported(self, event: Mapping[str, Any], request_id: str | None = None) -> LlmFailure:
        """Map an error object that came inside an answer of status 200."""
        words = self._words(event, b"")
        named = _code_in(event)
        number = re.match(r"[45]\d\d\b", named)
        status = int(number[0]) if number else None
        said = f"{named} {words}"
        code = _code_of_status(status, said) if status else _code_of_words(said)
        reason = words or self._show(named) or "it gives no reason"
        message = f"{self.host} broke off its answer: {reason}"
        return LlmFailure(code, message, status=status, request_id=request_id)

    def malformed(self, what: str, data: bytes, request_id: str | None = None) -> LlmFailure:
        """Say that an answer is not what it should be, with an excerpt of it."""
        excerpt = self._show(_plain(data.decode("utf-8", "replace")))
        message = f"{self.host} answered with {what}" + (f": {excerpt}" if excerpt else "")
        return LlmFailure("MALFORMED_RESPONSE", message, request_id=request_id)

    def broken(self, error: BaseException, *, timed_out: bool, begun: bool) -> LlmFailure:
        """Map an error of the connection, which becomes the cause; says what is at its bottom."""
        cause = self._show(root_cause(error))
        if timed_out:
            failure = LlmFailure("TIMEOUT", f"no connection to {self.host} in time: {cause}")
        elif begun:
            failure = LlmFailure("TRANSPORT", f"the connection to {self.host} broke: {cause}")
        else:
            failure = LlmFailure("TRANSPORT", f"cannot reach {self.host}: {cause}")
        failure.__cause__ = error
        return failure

    def of(self, code: str, what: str, request_id: str | None = None) -> LlmFailure:
        """Say what the endpoint did."""
        return LlmFailure(code, f"{self.host} {what}", request_id=request_id)

    def silent(self, seconds: float) -> LlmFailure:
        """Say that nothing came for too long."""
        return LlmFailure("TIMEOUT", f"{self.host} sent nothing for {seconds:g} s")

    def request_id(self, headers: Mapping[str, str]) -> str | None:
        """Return the provider's id of a request, where it gave one; an echo of the key is none."""
        given = headers.get("x-request-id") or headers.get("request-id")
        return self._show(given) if given else None

    def _words(self, parsed: Any, body: bytes) -> str:
        return self._show(_plain(_message_in(parsed) or body.decode("utf-8", "replace")))

    def _show(self, text: str) -> str:
        """Blot out secrets, then shorten: the other way round half a key could stay."""
        text = clean_text(self._secrets.scrub_excerpt(text))
        if len(text) > EXCERPT_CHARACTERS:
            text = text[: EXCERPT_CHARACTERS - 1] + "…"
        return text


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Read `retry-after-ms`, or `Retry-After` in seconds or as a date (RFC 9110, 10.2.3)."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    if (seconds := _number(text)) is not None:
        return seconds
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def root_cause(error: BaseException) -> str:
    """Say what is at the bottom of an error of the HTTP library: the system's error, if any.

    The library cuts its chains with `from None`, so contexts count even where they are hidden.
    """
    found, seen = error, set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if isinstance(link, OSError) and str(link):
            found = link
        if isinstance(link, BaseExceptionGroup):
            link = link.exceptions[0]
        else:
            link = link.__cause__ or link.__context__
    return str(found) or type(found).__name__


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\s*\d{1,9}(\.\d+)?\s*", text) else None


def _code_of_status(status: int, words: str) -> str:
    if status in (401, 403):
        return "AUTH"
    if status == 413:
        return "INVALID_REQUEST"
    if status == 402 or (status < 500 and _QUOTA.search(words)):
        return "QUOTA"
    if status == 429:
        return "RATE_LIMIT"
    if status in (400, 422) and _CONTEXT.search(words):
        return "CONTEXT_WINDOW_EXCEEDED"
    if status == 400:
        return "INVALID_REQUEST"
    if status == 408:
        return "TIMEOUT"
    return "SERVER" if status >= 500 else f"HTTP_{status}"


def _code_of_words(words: str) -> str:
    """Map an error without a status; one that fits nothing is the server's own trouble."""
    patterns = (
        (_QUOTA, "QUOTA"),
        (_RATE, "RATE_LIMIT"),
        (_CONTEXT, "CONTEXT_WINDOW_EXCEEDED"),
        (_AUTH, "AUTH"),
        (_INVALID, "INVALID_REQUEST"),
    )
    return next((code for pattern, code in patterns if pattern.search(words)), "SERVER")


def _parse(body: bytes) -> Any:
    import json

    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _message_in(parsed: Any, depth: int = _DEPTH) -> str:
    """Dig out the words: `error.message`, `message`, `detail`, `error`, or a first item's."""
    if isinstance(parsed, str):
        return parsed
    if depth == 0:
        return ""
    if isinstance(parsed, list):
        return _message_in(parsed[0], depth - 1) if parsed else ""
    if not isinstance(parsed, Mapping):
        return ""
    inner = parsed.get("error")
    places = [parsed.get(name) for name in ("message", "detail", "msg")]
    places.insert(0 if isinstance(inner, Mapping) else 3, inner)
    return next((text for place in places if (text := _message_in(place, depth - 1))), "")


def _code_in(parsed: Any) -> str:
    """Return the provider's own code and type, in one text; "" where there are none."""
    if isinstance(parsed, list):
        parsed = parsed[0] if parsed else None
    if not isinstance(parsed, Mapping):
        return ""
    inner = parsed.get("error")
    place = inner if isinstance(inner, Mapping) else parsed
    code = place.get("code")
    if isinstance(code, int) and not isinstance(code, bool):
        return str(code)
    return " ".join(str(part) for part in (code, place.get("type")) if isinstance(part, str))


def _plain(text: str) -> str:
    """Turn a page into its title, or its text, and any white space into single blanks."""
    text = text[:_LOOKED_AT_CHARACTERS]
    if text.lstrip()[:1] == "<":
        from html import unescape

        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        kept = (
            title[1]
            if title and title[1].strip()
            else re.sub(
                r"<(script|style).*?</\1>|<[^>]*>", " ", text, flags=re.IGNORECASE | re.DOTALL
            )
        )
        text = unescape(kept)
    return " ".join(text.split())

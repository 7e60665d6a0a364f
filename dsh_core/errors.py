"""Every error dsh raises on purpose.

::

    HarnessError
    ├── UserError            the user can fix it: printed without traceback, exit code 2
    │   └── ConfigError      a setting, a YAML file, a missing key or plugin
    ├── PluginError          a plugin raised, or broke the contract of a hook
    ├── LlmFailure           a model request failed; routed by `code`, never by text
    ├── SessionError         an event the log refuses
    ├── ToolError            what a tool body raises to choose code and text of its result
    └── AgentError           a handle used against its contract (disposed, from inside its turn)

Anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dsh_core.plain import clean_text


class HarnessError(Exception):
    """The root of the tree above."""


class UserError(HarnessError):
    """A mistake the user can fix: says what, where and what to do.

    Args:
        message: What is wrong, in the user's words.
        where: File, line, key path or option it is about.
        remedy: One sentence that says what to do.

    """

    def __init__(self, message: str, *, where: str | None = None, remedy: str | None = None):
        super().__init__(message)
        self.message = message
        self.where = where
        self.remedy = remedy

    def scrub(self, scrub: Callable[[str], str]) -> None:
        """Take out of its texts what must not be written."""
        for name in ("message", "where", "remedy", "cause"):
            if isinstance(text := getattr(self, name, None), str):
                setattr(self, name, scrub(text))
        self.args = (self.message,)

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  {self.remedy}" if self.remedy else text


class ConfigError(UserError):
    """A setting that cannot be used; raised before any agent starts."""


class PluginError(HarnessError):
    """A plugin raised inside a hook, or answered against the hook's contract.

    The cause, when there is one, is in `__cause__`.
    """

    def __init__(self, plugin: str, hook: str, message: str):
        super().__init__(message)
        self.plugin = plugin
        self.hook = hook
        self.message = message

    def __str__(self) -> str:
        return f"plugin {self.plugin!r} in {self.hook}: {self.message}"


class SessionError(HarnessError):
    """An event the session log refuses; the log is unchanged."""


class AgentError(HarnessError):
    """A use of an agent handle that its contract forbids."""


class AgentDisposedError(AgentError):
    """The agent was disposed; it takes no more input."""


class ToolError(HarnessError):
    """Raised by a tool body: the call's result becomes this text and code.

    Args:
        message: What the model reads.
        code: Upper-case identifier for programs, as in `FS_NOT_FOUND`.

    """

    def __init__(self, message: str, *, code: str = "TOOL_FAILED"):
        super().__init__(message)
        self.code = code


class LlmFailure(HarnessError):  # noqa: N818 - the field calls it a failure
    """A model request that failed, in one form for every adapter.

    Args:
        code: `AUTH`, `QUOTA`, `RATE_LIMIT`, `CONTEXT_WINDOW_EXCEEDED`, `INVALID_REQUEST`,
            `SERVER`, `HTTP_<n>`, `TRANSPORT`, `TIMEOUT`, `ABORTED`, `MALFORMED_RESPONSE`,
            `EMPTY_RESPONSE`, `CONTENT_FILTER`, `MISSING_CREDENTIAL`, `INVALID_CREDENTIAL`,
            `NO_ADAPTER`, `UNKNOWN` or a provider's own upper-cased reason.
        message: For people; never holds a key.
        status: HTTP status, where there was one.
        retry_after_seconds: The provider's wish, where it gave one.
        request_id: The provider's id of the request, for its support.

    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        request_id: str | None = None,
    ):
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.request_id = request_id

    def __str__(self) -> str:
        suffix = f" (request id {self.request_id})" if self.request_id else ""
        return f"{self.code}: {self.message}{suffix}"

    def scrub(self, scrub: Callable[[str], str]) -> None:
        """Take out of its texts what must not be written."""
        self.message = scrub(self.message)
        self.args = (self.message,)
        if self.request_id is not None:
            self.request_id = scrub(self.request_id)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set, as JSON."""
        fields = ("code", "message", "status", "retry_after_seconds", "request_id")
        return {name: value for name in fields if (value := getattr(self, name)) is not None}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LlmFailure:
        """Rebuild a failure that `to_json` wrote."""
        return cls(
            data["code"],
            data["message"],
            **{
                name: data[name]
                for name in ("status", "retry_after_seconds", "request_id")
                if name in data
            },
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LlmFailure) and self.to_json() == other.to_json()

    __hash__ = HarnessError.__hash__


def error_chain(error: BaseException) -> str:
    """Say an error and what caused it in one line, root cause last, safe on cycles.

    The text can always be written: a lone surrogate in a message becomes U+FFFD.
    """
    said: list[str] = []
    for link in _links(error):
        text = _describe(link)
        if not said or text not in said[-1]:
            said.append(text)
    text = " ← ".join(said)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _links(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        if isinstance(link, BaseExceptionGroup):
            for member in link.exceptions:
                if id(member) not in seen:
                    seen.add(id(member))
                    yield member
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def error_text(error: BaseException) -> str:
    """Say an error in its own words, whatever its `__str__` does."""
    try:
        return clean_text(str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001 - a hostile __str__ must not hide the error
        return f"(its text cannot be read: {type(broken).__name__})"


def _describe(error: BaseException) -> str:
    text = error_text(error)
    name = type(error).__name__
    if isinstance(error, HarnessError) and text:
        return text
    return f"{name}: {text}" if text else name

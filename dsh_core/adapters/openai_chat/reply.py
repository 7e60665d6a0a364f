"""A chat-completions answer folded into chunks, whether it came as a stream or as one object.

Fields as in https://platform.openai.com/docs/api-reference/chat/streaming and
https://api-docs.deepseek.com/api/create-chat-completion; where servers differ, what was streamed
counts for more than what was said about it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from dsh_core.adapters.openai_chat.calls import Calls
from dsh_core.adapters.openai_chat.failures import Failures
from dsh_core.adapters.sse import OverlongError
from dsh_core.adapters.strict_json import parser
from dsh_core.chunks import (
    BlockStart,
    Chunk,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageChunk,
)
from dsh_core.codec import clean_text
from dsh_core.errors import LlmFailure

Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta

BLOCK_LIMIT = 1024
"""How many blocks a reply may have. OpenAI takes 128 functions in a request; this is eight calls of
each. https://platform.openai.com/docs/api-reference/chat/create"""

NAME_CHARACTERS = 128
"""How much of a name or reason is taken; that of a function has at most 64 characters there."""

_DONE = b"[DONE]"

_STOPPED = frozenset(
    {"stop", "tool_calls", "function_call"}  # OpenAI
    | {"eos_token", "stop_sequence"}  # Hugging Face's TGI
    | {"end_turn", "tool_use"}  # gateways to Anthropic
)
_CUT = frozenset({"length", "max_tokens", "model_length"})  # OpenAI, gateways, Mistral
_FILTERED = frozenset({"content_filter", "sensitive"})  # OpenAI, Zhipu
_SERVER_TROUBLE = frozenset({"insufficient_system_resource", "error"})  # DeepSeek, OpenRouter


class Reply:
    """Folds the events of one answer. Chunks wait in `out` until the reader has taken them.

    A message has one text and one reasoning, as on the wire, and its calls; blocks are numbered
    as they appear.

    Args:
        failures: Makes what is raised or finished with.
        request_id: The provider's id of the request.
    """

    __slots__ = (
        "_calls",
        "_failure",
        "_failures",
        "_halves",
        "_next_block",
        "_parse",
        "_reasoning",
        "_request_id",
        "_text",
        "_unclean",
        "_usage",
        "begun",
        "ended",
        "out",
        "reason",
    )

    def __init__(self, failures: Failures, request_id: str | None = None):
        self._parse = parser()
        self._failures = failures
        self._request_id = request_id
        self._next_block = 0
        self._text: int | None = None
        self._reasoning: int | None = None
        self._calls = Calls()
        self._usage: Any = None
        self._failure: LlmFailure | None = None
        self._unclean = False  # an event held a lone surrogate: look at all text from there on
        self._halves: dict[int, tuple[type[Delta], str]] = {}  # block → first half of a pair
        self.out: list[Chunk] = []
        self.reason: str | None = None
        self.begun = False  # an event was read
        self.ended = False  # nothing after this is to be read

    def take(self, payload: bytes) -> bool:
        """Fold one event; True when nothing after it is to be read."""
        try:
            event = self._parse(payload)
        except ValueError:
            marker = payload.strip()
            if marker in (b"", _DONE):
                self.ended = marker == _DONE
                return self.ended
            event = self._parse_leniently(payload)
        self.begun = True
        try:
            self._fold(event)
        except OverlongError as error:
            self.refuse(str(error), b"")
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
            self.refuse("a malformed event", payload)
        return self.ended

    def refuse(self, what: str, data: bytes) -> None:
        """End the answer as malformed; `what` says what came in its place, `data` is its text."""
        self._fail(self._failures.malformed(what, data, self._request_id))

    def finish(self) -> list[Chunk]:
        """Return what is left when the answer has ended: usage, then finish.

        Raises `LlmFailure` where the answer is not complete.
        """
        if self._failure is not None:
            raise self._failure
        if self.reason is None and not self.ended:
            raise self._failures.of(
                "TRANSPORT", "ended its answer without a finish_reason", self._request_id
            )
        out: list[Chunk] = [
            _delta(kind, block, "\ufffd") for block, (kind, _) in self._halves.items()
        ]
        if isinstance(self._usage, Mapping):
            out.append(UsageChunk(read_usage(self._usage)))
        out.append(self._finish())
        return out

    def _fail(self, failure: LlmFailure) -> None:
        self._failure = failure
        self.ended = True

    def _finish(self) -> Finish:
        reason, problem = self.reason, None
        if reason in _FILTERED:
            problem = "CONTENT_FILTER", "stopped the answer by its content filter"
        elif reason in _SERVER_TROUBLE:
            problem = "SERVER", f"gave up the answer: {reason}"
        elif reason in _CUT:
            return Finish("max-tokens", request_id=self._request_id)
        elif reason is not None and reason not in _STOPPED:
            code = re.sub(r"[^A-Z0-9]+", "_", reason.upper()).strip("_") or "UNKNOWN"
            problem = code, f"ended the answer with finish_reason {reason!r}"
        elif self._next_block == 0:
            problem = "EMPTY_RESPONSE", "sent no text, no reasoning and no tool call"
        if problem is not None:
            failure = self._failures.of(*problem, self._request_id)
            return Finish("error", failure, self._request_id)
        return Finish("tool-calls" if self._calls else "stop", request_id=self._request_id)

    def _parse_leniently(self, payload: bytes) -> Any:
        """Parse what is not strict: lone surrogates, broken UTF-8. None where it is no JSON."""
        self._unclean = True
        try:
            return json.loads(payload.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None

    def _fold(self, event: Any) -> None:
        if usage := event.get("usage"):
            self._usage = usage
        choices = event.get("choices")
        if event.get("error") or (not choices and event.get("object") == "error"):
            self._fail(self._failures.reported(event, self._request_id))
            return
        if not choices:
            return
        choice = choices[0]
        if delta := choice.get("delta"):
            self._fold_delta(delta)
        elif message := choice.get("message"):
            self._fold_delta(message, whole=True)
            self.ended = True
        if reason := choice.get("finish_reason"):
            self.reason = str(reason)[:NAME_CHARACTERS].lower()
            self._usage = choice.get("usage") or self._usage  # Moonshot's place for it

    def _fold_delta(self, delta: Any, *, whole: bool = False) -> None:
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            if self._reasoning is None:
                self._reasoning = self._open("reasoning")
            self._say(ReasoningDelta, self._reasoning, thought)
        if text := delta.get("content") or delta.get("refusal"):
            if self._text is None:
                self._text = self._open("text")
            self._say(TextDelta, self._text, text)
        if calls := delta.get("tool_calls"):
            for position, fragment in enumerate(calls):
                self._fold_call(fragment, position if whole else fragment.get("index"))

    def _fold_call(self, fragment: Any, index: object) -> None:
        function = fragment.get("function") or {}
        call_id, name = _label(fragment.get("id")), _label(function.get("name"))
        name = name and name[:NAME_CHARACTERS]
        arguments = function.get("arguments") or ""
        if arguments.__class__ is not str:  # some servers send the object itself
            arguments = json.dumps(arguments, ensure_ascii=False)
        call = self._calls.find(index, call_id, name)
        if call is None:
            if not (call_id or name or arguments):
                return
            call = self._calls.open(index, call_id, self._open("tool-call"))
        if self._unclean:
            arguments = self._join_halves(ToolCallDelta, call.block, arguments)
        new_id, new_name = None if call.id else call_id, None if call.name else name
        call.id, call.name = call.id or call_id, call.name or name
        call.arguments.append(arguments)
        if new_id or new_name or arguments:
            self.out.append(ToolCallDelta(call.block, new_id, new_name, arguments))

    def _open(self, kind: str) -> int:
        block = self._next_block
        if block == BLOCK_LIMIT:
            raise OverlongError(f"more than {BLOCK_LIMIT} blocks")
        self._next_block += 1
        self.out.append(BlockStart(block, kind))
        return block

    def _say(self, kind: type[TextDelta] | type[ReasoningDelta], block: int, text: Any) -> None:
        if text.__class__ is not str:
            text = "".join([part["text"] for part in text if part.get("type") == "text"])
        if self._unclean:
            text = self._join_halves(kind, block, text)
        if text:
            self.out.append(kind(block, text))

    def _join_halves(self, kind: type[Delta], block: int, text: str) -> str:
        """Join a surrogate pair that came in two deltas: hold a first half back for its second."""
        text = self._halves.pop(block, (kind, ""))[1] + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._halves[block] = kind, text[-1]
            text = text[:-1]
        return clean_text(text)


def read_usage(usage: Mapping[str, Any]) -> Usage:
    """Read a wire usage into disjoint counts, none negative.

    The prompt includes what the cache served and took in: `prompt_cache_hit_tokens` (DeepSeek),
    `prompt_tokens_details.cached_tokens` (OpenAI), `cached_tokens` (Moonshot),
    `prompt_tokens_details.cache_write_tokens` (OpenRouter).
    """
    details = usage.get("prompt_tokens_details")
    if not isinstance(details, Mapping):
        details = {}
    hit = _count(usage.get("prompt_cache_hit_tokens")) or _count(
        details.get("cached_tokens") or usage.get("cached_tokens")
    )
    prompt = _count(usage.get("prompt_tokens")) or (
        hit + _count(usage.get("prompt_cache_miss_tokens"))
    )
    read = min(hit, prompt)
    written = min(_count(details.get("cache_write_tokens")), prompt - read)
    return Usage(
        input_tokens=prompt - read - written,
        output_tokens=_count(usage.get("completion_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _count(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and 0 < value < 1e15 else 0


def _label(value: Any) -> str | None:
    """Return an id or name as text; None for null and ""."""
    return clean_text(str(value)) if value else None


def _delta(kind: type[Delta], block: int, text: str) -> Delta:
    return ToolCallDelta(block, arguments=text) if kind is ToolCallDelta else kind(block, text)

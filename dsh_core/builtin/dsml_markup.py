"""Tool calls in DSML, the markup of DeepSeek's models, read from the text of a reply.

The format is that of `encoding/encoding_dsv32.py` (blocks are called `function_calls`) and
`encoding/encoding_dsv4.py` (`tool_calls`) in the repositories of DeepSeek-V3.2 and -V4. Servers
have been seen to send its bars doubled or as other characters: cline/cline#13348,
lsdefine/GenericAgent#804.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from typing import NoReturn

from dsh_core.content import Block, Text, ToolCall
from dsh_core.messages import Message

_BARS = "[｜|‖]{1,2}"
_OPEN = f"<{_BARS}DSML{_BARS}"
_CLOSE = f"</{_BARS}DSML{_BARS}"
_START = f"</?{_BARS}DSML"

_MARKUP = re.compile(_START)
_FENCE = r"^[ \t>*+-]*(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})"
_MARKUP_OR_CODE = re.compile(f"(?P<markup>{_START})|{_FENCE}|(?P<ticks>`+)", re.MULTILINE)
_TICKS = re.compile("`+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_BLOCK = re.compile(rf"{_OPEN}(?:tool|function)_calls\s*>")
_BLOCK_END = re.compile(rf"\s*{_CLOSE}(?:tool|function)_calls\s*>")
_INVOKE = re.compile(rf'\s*{_OPEN}invoke\s+name="([^"]+)"\s*>')
_INVOKE_END = re.compile(rf"\s*{_CLOSE}invoke\s*>")
_PARAMETER = re.compile(rf'\s*{_OPEN}parameter\s+name="([^"]+)"\s+string="(true|false)"\s*>')
_PARAMETER_END = re.compile(rf"{_CLOSE}parameter\s*>")


class MarkupError(ValueError):
    """Markup that cannot be run; says what is wrong with it."""


def with_calls(message: Message) -> Message:
    """Return the message with its written calls as `ToolCall` blocks, after all that is text.

    Raises `MarkupError` when any of its markup cannot be run; then none of it is.
    """
    content: list[Block] = []
    calls: list[ToolCall] = []
    for block in message.content:
        if isinstance(block, Text):
            prose, found = read_calls(block.text)
            calls += found
            block = Text(prose) if found else block
        if not isinstance(block, Text) or block.text:
            content.append(block)
    return replace(message, content=(*content, *calls)) if calls else message


def read_calls(text: str) -> tuple[str, list[ToolCall]]:
    """Return the text without its markup, and the calls of it; code is left alone.

    Raises `MarkupError` for markup that is incomplete or malformed.
    """
    prose: list[str] = []
    calls: list[ToolCall] = []
    kept = position = 0
    while (found := _MARKUP_OR_CODE.search(text, position)) is not None:
        if found["markup"] is None:
            position = _end_of_code(text, found)
            continue
        prose.append(text[kept : found.start()].strip())
        more, position = _read_block(text, found.start())
        calls += more
        kept = position
    prose.append(text[kept:].strip())
    return "\n\n".join(filter(None, prose)), calls


def _end_of_code(text: str, opening: re.Match[str]) -> int:
    """Return where a fence or a code span ends, much as CommonMark has it."""
    start = opening.end()
    if (fence := opening["fence"]) is not None:
        line = re.compile(rf"^[ \t>]*{fence[0]}{{{len(fence)},}}[ \t]*$", re.MULTILINE)
        closing = line.search(text, start)
        return closing.end() if closing else len(text)
    blank_line = _BLANK_LINE.search(text, start)
    for ticks in _TICKS.finditer(text, start, blank_line.start() if blank_line else len(text)):
        if ticks[0] == opening["ticks"]:
            return ticks.end()
    return start


def _read_block(text: str, position: int) -> tuple[list[ToolCall], int]:
    """Read a whole block; return its calls and where it ends."""
    block = _BLOCK.match(text, position)
    if block is None:
        raise MarkupError("it does not begin with a `tool_calls` tag")
    calls: list[ToolCall] = []
    position = block.end()
    while (invoke := _INVOKE.match(text, position)) is not None:
        arguments, position = _read_arguments(text, invoke.end())
        end = _INVOKE_END.match(text, position)
        if end is None:
            raise MarkupError(f"the call of `{invoke[1]}` is malformed or not closed")
        position = end.end()
        calls.append(ToolCall(f"dsml_{os.urandom(16).hex()}", invoke[1], arguments))
    end = _BLOCK_END.match(text, position)
    if end is None or not calls:
        raise MarkupError("the block is malformed, empty or not closed")
    return calls, end.end()


def _read_arguments(text: str, position: int) -> tuple[str, int]:
    """Read the parameters of a call; return them as JSON, and where they end."""
    arguments: dict[str, object] = {}
    while (parameter := _PARAMETER.match(text, position)) is not None:
        name = parameter[1]
        if name in arguments:
            raise MarkupError(f"the parameter `{name}` is given twice")
        # A value that holds markup itself is ambiguous: where would it end?
        markup = _MARKUP.search(text, parameter.end())
        end = _PARAMETER_END.match(text, markup.start()) if markup else None
        if end is None:
            raise MarkupError(f"the parameter `{name}` is not closed, or holds markup itself")
        value = text[parameter.end() : end.start()]
        arguments[name] = value if parameter[2] == "true" else _json(name, value)
        position = end.end()
    return json.dumps(arguments, ensure_ascii=False), position


def _json(name: str, value: str) -> object:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    try:
        parsed: object = json.loads(value, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise MarkupError(f"the parameter `{name}` is not JSON: {error}") from None
    return parsed

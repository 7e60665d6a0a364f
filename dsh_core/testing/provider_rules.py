"""What a real provider refuses in a chat-completions request.

The rules are those on which OpenAI and DeepSeek agree, and which a harness breaks by a wrong
history rather than by a wrong parameter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Legal function names: https://platform.openai.com/docs/api-reference/chat/create#tools."""

ROLES = ("system", "developer", "user", "assistant", "tool")


def problems_of(body: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a request, each with its place; empty = nothing."""
    return [*_of_the_whole(body), *_of_messages(body.get("messages")), *_of_tools(body)]


def _of_the_whole(body: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: missing"
    if "stream_options" in body and body.get("stream") is not True:
        yield "stream_options: only allowed with stream: true"
    for path in _lone_surrogates(body, ""):
        yield f"{path}: lone surrogate"


def _lone_surrogates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _lone_surrogates(key, f"{path or 'body'} (a key)")
            yield from _lone_surrogates(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _lone_surrogates(item, f"{path}[{index}]")


def _of_messages(messages: Any) -> Iterator[str]:
    if not isinstance(messages, list) or not messages:
        yield "messages: missing or empty"
        return
    waiting: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            yield f"{where}: role is {_role(message)!r}, not one of {', '.join(ROLES)}"
            continue
        if message["role"] == "tool":
            yield from _of_tool_message(message, where, waiting)
            continue
        if waiting:
            yield f"{where}: follows calls without a result: {', '.join(waiting)}"
        waiting = []
        if message["role"] == "assistant":
            yield from _of_assistant_message(message, where)
            waiting = _call_ids(message)
        else:
            yield from _of_content(message.get("content"), where)
    if waiting:
        yield f"messages: end with calls without a result: {', '.join(waiting)}"


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else message


def _of_tool_message(message: Mapping[str, Any], where: str, waiting: list[str]) -> Iterator[str]:
    call_id = message.get("tool_call_id")
    if call_id in waiting:
        waiting.remove(call_id)
    else:
        yield f"{where}: tool_call_id {call_id!r} answers no open call"
    yield from _of_content(message.get("content"), where)


def _of_content(content: Any, where: str) -> Iterator[str]:
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        yield f"{where}.content: expected text or parts, found {json.dumps(content)[:60]}"
        return
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            continue
        if kind == "image_url" and isinstance(part.get("image_url"), dict):
            continue
        yield f"{where}.content[{index}]: not a text or image_url part"


def _of_assistant_message(message: Mapping[str, Any], where: str) -> Iterator[str]:
    calls = message.get("tool_calls")
    if calls is None:
        yield from _of_content(message.get("content"), where)
        return
    if not isinstance(calls, list) or not calls:
        yield f"{where}.tool_calls: expected a list that is not empty"
        return
    if message.get("content") is not None:
        yield from _of_content(message["content"], where)
    for index, call in enumerate(calls):
        yield from _of_call(call, f"{where}.tool_calls[{index}]")
    ids = _call_ids(message)
    if len(set(ids)) != len(calls):
        yield f"{where}.tool_calls: ids missing or repeated: {ids}"


def _call_ids(message: Mapping[str, Any]) -> list[str]:
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return []
    ids = [call.get("id") for call in calls if isinstance(call, dict)]
    return [call_id for call_id in ids if isinstance(call_id, str) and call_id]


def _of_call(call: Any, where: str) -> Iterator[str]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type") != "function":
        yield f"{where}: not a function call"
        return
    yield from _of_name(function.get("name"), f"{where}.function.name")
    if not _is_json_object(function.get("arguments")):
        yield f"{where}.function.arguments: not the text of a JSON object"


def _of_name(name: Any, where: str) -> Iterator[str]:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield f"{where}: {name!r} does not match {NAME.pattern}"


def _is_json_object(text: Any) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def _of_tools(body: Mapping[str, Any]) -> Iterator[str]:
    tools = body.get("tools")
    if tools is None:
        if body.get("tool_choice") is not None:
            yield "tool_choice: only allowed with tools"
        return
    if not isinstance(tools, list) or not tools:
        yield "tools: expected a list that is not empty"
        return
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            yield f"{where}: not a function"
            continue
        name = function.get("name")
        yield from _of_name(name, f"{where}.function.name")
        if name in seen:
            yield f"{where}.function.name: {name!r} appears twice"
        seen.add(str(name))
        yield from _of_parameters(function.get("parameters"), f"{where}.function.parameters")


def _of_parameters(parameters: Any, where: str) -> Iterator[str]:
    if parameters is None:
        return
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        yield f"{where}: expected a schema of type object"
        return
    if not isinstance(parameters.get("properties", {}), dict):
        yield f"{where}.properties: expected an object"
    for target in _references(parameters):
        if not _resolves(parameters, target):
            yield f"{where}: $ref {target!r} leads nowhere"


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        target = schema.get("$ref")
        if isinstance(target, str):
            yield target
        for item in schema.values():
            yield from _references(item)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def _resolves(schema: Any, target: str) -> bool:
    if not target.startswith("#"):
        return False
    for step in target[1:].split("/")[1:]:
        if not isinstance(schema, dict) or step not in schema:
            return False
        schema = schema[step]
    return True

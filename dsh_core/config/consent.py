"""What a person is shown before agreeing to a project's file.

The file may be written by an enemy who wants a quick yes. So the text stands in a margin of line
numbers, which it cannot imitate; what agreeing makes active comes after it, as dsh reads it and not
as the text looks, the weightiest next to the question; and what is too long to be judged on a
screen is not asked about at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from dsh_core.config.interpolate import has_variable, holds_rules
from dsh_core.config.mistakes import KeyPath, dotted
from dsh_core.config.yaml import read_document
from dsh_core.errors import ConfigError

LIMIT_LINES: Final = 500
"""Some ten screens: more is not read before an answer."""
LIMIT_LINE_CHARACTERS: Final = 400
"""A few rows of a terminal. A longer line has something to hide, or is no text for people."""
_SHOWN_CHARACTERS: Final = 120
_LINE_BREAK = re.compile("\\r\\n|[\\n\\r\\x85\\u2028\\u2029]")

_PLAIN, _AGENTS, _SETTINGS, _POLICY, _VARIABLES, _PROVIDERS = range(6)
"""How much a part weighs, in growing order."""

_HEADINGS = {
    _PLAIN: "Other settings:",
    _AGENTS: "Agents, in place of yours where the names are the same:",
    _SETTINGS: "Settings of plugins, which may name programs and limits:",
    _POLICY: "Plugins switched off, or set for some agents only:",
    _VARIABLES: "Values of your environment that it uses:",
    _PROVIDERS: "Where your prompts, files and keys are sent:",
}


def too_long(content: bytes) -> str | None:
    """Say why a file cannot be judged on a screen; None = it can."""
    lines = _lines(content)
    if len(lines) > LIMIT_LINES:
        return f"it has {len(lines)} lines, more than {LIMIT_LINES}"
    for number, line in enumerate(lines, 1):
        if len(line) > LIMIT_LINE_CHARACTERS:
            return f"line {number} has {len(line)} characters, more than {LIMIT_LINE_CHARACTERS}"
    return None


def numbered(content: bytes) -> list[str]:
    """Return the text's lines, each behind its number."""
    return [f"{number:>4} | {line}" for number, line in enumerate(_lines(content), 1)]


def activated(content: bytes, name: str) -> list[str]:
    """Return the lines that tell what agreeing makes active, the weightiest last."""
    try:
        document = read_document(content, name)
    except ConfigError as error:
        return [f"It does not load as it is: {' '.join(str(error).split())}"]
    groups: dict[int, list[str]] = {}
    for path, value in _leaves(document.data, ()):
        place = next(p for n in range(len(path), -1, -1) if (p := document.places.get(path[:n])))
        for weight in _weights(path, value):
            groups.setdefault(weight, []).append(f"  line {place.line}: {_said(path, value)}")
    return [line for weight in sorted(groups) for line in (_HEADINGS[weight], *groups[weight])] or [
        "It says nothing."
    ]


def _lines(content: bytes) -> list[str]:
    """Return the lines as YAML counts them."""
    return _LINE_BREAK.split(content.decode("utf-8", "replace").rstrip("\r\n"))


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    """Return what the file says, lists as one value."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif path:
        yield path, value


def _weights(path: KeyPath, value: Any) -> list[int]:
    """Return the groups a value belongs to."""
    weights = [_weight(path, value)]
    if not holds_rules(path) and has_variable(json.dumps(value, ensure_ascii=False)):
        weights.append(_VARIABLES)
    return weights


def _weight(path: KeyPath, value: Any) -> int:
    match path:
        case ("providers", *_):
            return _PROVIDERS
        case ("autoload",) | ("agents", _, "plugins", *_):
            return _POLICY
        case ("plugins", _):
            return _POLICY if value is False else _SETTINGS
        case ("plugins", *_):
            return _SETTINGS
        case ("agents", *_) | ("default_agent",):
            return _AGENTS
        case _:
            return _PLAIN


def _said(path: KeyPath, value: Any) -> str:
    """Say a value on one line; of an address first where it leads, however long it is."""
    text = json.dumps(value, ensure_ascii=False)
    host = _host(value) if path[-1] == "base_url" else None
    key = _short(json.dumps(dotted(path), ensure_ascii=False)[1:-1])
    return f"{key}: {f'{host}, in full ' if host else ''}{_short(text)}"


def _short(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return f"{text[:_SHOWN_CHARACTERS]}… ({len(text)} characters)"


def _host(value: Any) -> str | None:
    try:
        return urlsplit(value).hostname if isinstance(value, str) else None
    except ValueError:
        return None

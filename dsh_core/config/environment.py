"""Settings in environment variables: `DSH_PROVIDERS__LOCAL__BASE_URL=http://…`.

`DSH_` and the key path, joined by `__`; upper or lower case. A part of the path names the key that
the files have where both are equal once case is folded and everything but letters and digits is
`_`: `DSH_PROVIDERS__MY_GATEWAY__BASE_URL` reaches `my-gateway`, `…__MODELS__GPT_4_1__…` reaches
`gpt-4.1`. A name that no file has is taken in lower case. Names that differ only so, or that hold
`__`, are reached by `-s`.

A value is text, or JSON-like where it begins with `[` or `{`; numbers, `true` and `false` are
converted where that is wanted. An empty variable counts as not set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dsh_core.config.known import KNOWN_PROVIDERS
from dsh_core.config.mistakes import KeyPath, Mistake, nearest
from dsh_core.config.source import Source
from dsh_core.config.yaml import Document, is_utf8, plain_scalar, read_value
from dsh_core.errors import ConfigError

SECTIONS = ("providers", "agents", "plugins")

OTHER_VARIABLES: Mapping[str, str] = {
    "DSH_DEFAULT_AGENT": "The agent that runs; the setting `default_agent`.",
    "DSH_MODEL": "The route, or the first provider's model, of agents that name none.",
    "DSH_SAFE": "1 = built-in plugins only, as `--safe`.",
    "DSH_NO_PLUGINS": "The same.",
    "DSH_USER_DIR": "The folder of the user's own files.",
    "DSH_STREAM_IDLE_S": "Option `stream_idle_seconds` of every provider.",
    "DSH_HTTP": "Which HTTP library is used.",
    "DSH_LOG": "Level of the log.",
}
"""Every `DSH_` variable that is not a key path."""

_NEAR = 0.8
"""A variable that looks this much like one of ours is taken for a misspelling of it."""


def read_environment(
    environ: Mapping[str, str], files: Sequence[Source]
) -> tuple[Source, list[Mistake]]:
    """Return what the environment sets; names are resolved against what the files say."""
    reader = _Reader([source.data for source in files])
    for variable in sorted(environ):
        if variable.upper().startswith("DSH_") and environ[variable].strip():
            reader.read(variable, environ[variable])
    source = Source(
        "environment", "environment", reader.data, names=reader.names, written=reader.written
    )
    return source, reader.mistakes


def set_at(data: dict[str, Any], path: Sequence[str], value: object) -> None:
    """Put a value at a key path, making the mappings above it."""
    for key in path[:-1]:
        below = data.get(key)
        data[key] = below if isinstance(below, dict) else {}
        data = data[key]
    data[path[-1]] = value


class _Reader:
    def __init__(self, files: list[dict[str, Any]]):
        self.levels: list[Mapping[str, Any]] = [*files, {"providers": dict(KNOWN_PROVIDERS)}]
        self.data: dict[str, Any] = {}
        self.names: dict[KeyPath, str] = {}
        self.written: dict[KeyPath, str] = {}
        self.mistakes: list[Mistake] = []

    def read(self, variable: str, value: str) -> None:
        upper = variable.upper()
        parts = upper.removeprefix("DSH_").split("__")
        if upper == "DSH_DEFAULT_AGENT":
            self._set(("default_agent",), variable, value)
        elif upper in OTHER_VARIABLES:
            return
        elif len(parts) == 1:
            self._check_spelling(variable)
        elif parts[0].lower() not in SECTIONS or not all(parts):
            self._add_unknown_section(variable, parts)
        elif not is_utf8(value):
            self._add(variable, "its value is not UTF-8 text", "Set it anew.")
        elif len(parts) == 2 and not value.lstrip().startswith("{"):
            message = "a key is missing: variables give settings and switch nothing on or off"
            self._add(variable, message, f"Write {variable}__KEY=VALUE.")
        else:
            path = self._resolve(variable, parts)
            if path is not None:
                self._set(path, variable, value)

    def _set(self, path: KeyPath, variable: str, value: str) -> None:
        document = _read_text(value)
        set_at(self.data, [str(key) for key in path], document.data)
        self.names[path] = variable
        self.written.update({(*path, *below): text for below, text in document.written.items()})
        self.written[path] = value

    def _resolve(self, variable: str, parts: list[str]) -> KeyPath | None:
        path: list[str] = []
        levels = self.levels
        for part in parts:
            keys = dict.fromkeys(key for level in levels for key in level if _fold(key) == part)
            if len(keys) > 1:
                names = " and ".join(keys)
                remedy = f"Use -s {'.'.join([*path, 'NAME', 'KEY'])}=VALUE."
                self._add(variable, f"this names both {names}", remedy)
                return None
            key = next(iter(keys), part.lower())
            below = [level[key] for level in levels if key in level]
            levels = [level for level in below if isinstance(level, Mapping)]
            path.append(key)
        return tuple(path)

    def _check_spelling(self, variable: str) -> None:
        upper = variable.upper()
        if upper == "DSH_AUTOLOAD":
            message = "the environment gives settings and never switches plugins on or off"
            self._add(variable, message, "Write `autoload` in dsh.yaml.")
            return
        known = [*OTHER_VARIABLES, *(f"DSH_{section.upper()}" for section in SECTIONS)]
        near = nearest(upper, known, cutoff=_NEAR)
        if near is not None:
            spelling = near if near in OTHER_VARIABLES else f"{near}__NAME__KEY"
            self._add(variable, "unknown variable", f"Did you mean {spelling}?")

    def _add_unknown_section(self, variable: str, parts: list[str]) -> None:
        near = nearest(parts[0].lower(), SECTIONS)
        spelling = f"DSH_{(near or 'SECTION').upper()}__NAME__KEY"
        known = "" if near else f" with one of {', '.join(SECTIONS)} as SECTION"
        self._add(variable, "unknown variable", f"Write {spelling}{known}.")

    def _add(self, variable: str, message: str, remedy: str) -> None:
        self.mistakes.append(Mistake(variable, message, remedy))


def _read_text(value: str) -> Document:
    if value.lstrip().startswith(("[", "{")):
        try:
            return read_value(value, "environment")
        except ConfigError:  # text that begins with a bracket, such as a prompt
            return Document(value)
    return Document(plain_scalar(value))


def _fold(key: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", key.upper())

"""Settings on the command line: `-s plugins.shell.timeout_seconds=5`.

The key path is written as in messages; a name that holds a dot stands in quotes
(`-s 'providers.openai.models."gpt-4.1".context_window_tokens=1047576'`). The value is read as in
`dsh.yaml`: a scalar, text in quotes, or a list or mapping in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dsh_core.config.environment import SECTIONS, set_at
from dsh_core.config.mistakes import KeyPath, Mistake, did_you_mean
from dsh_core.config.source import Source
from dsh_core.config.yaml import (
    Document,
    ambiguous,
    is_ambiguous,
    is_utf8,
    plain_scalar,
    read_value,
)
from dsh_core.errors import ConfigError

_PART = r"""(?:"[^"]+"|'[^']+'|[^.="']+)"""
_OPTION = re.compile(rf"\s*(?P<path>{_PART}(?:\.{_PART})*)\s*=(?P<value>.*)", re.DOTALL)


def read_options(options: Sequence[str]) -> tuple[Source, list[Mistake]]:
    """Return what `-s` options set; a later one wins."""
    data: dict[str, Any] = {}
    names: dict[KeyPath, str] = {}
    written: dict[KeyPath, str] = {}
    mistakes: list[Mistake] = []
    for option in options:
        match = _OPTION.fullmatch(option)
        name = f"-s {match['path'] if match else option.partition('=')[0]}".strip()
        path = [part.strip("\"'") for part in re.findall(_PART, match["path"])] if match else []
        problem = _path_mistake(name, path)
        if not is_utf8(option):
            problem = Mistake(name, "this is not UTF-8 text", "Check the terminal's encoding.")
        if problem is not None or match is None:
            mistakes.append(problem or Mistake(name, "this is not KEY=VALUE", _FORM))
            continue
        try:
            document = _read_value(match["value"].strip(), name)
        except ConfigError as error:
            mistakes.append(Mistake(name, error.message, error.remedy or _FORM))
            continue
        set_at(data, path, document.data)
        names[tuple(path)] = "-s"
        written.update({(*path, *below): text for below, text in document.written.items()})
    return Source("-s", "options", data, names=names, written=written), mistakes


_FORM = "Write -s plugins.NAME.KEY=VALUE."


def _path_mistake(name: str, path: list[str]) -> Mistake | None:
    if not path:
        return Mistake(name, "this is not KEY=VALUE", _FORM)
    if path == ["default_agent"]:
        return None
    if path == ["autoload"]:
        message = "-s gives settings and never switches plugins on or off"
        return Mistake(name, message, "Use `-p no:NAME`, or write `autoload` in dsh.yaml.")
    if path[0] not in SECTIONS:
        remedy = did_you_mean(path[0], ("default_agent", *SECTIONS))
        return Mistake(name, f"unknown key `{path[0]}`", f"{remedy} {_FORM}")
    if len(path) == 1:
        return Mistake(name, "a name and a key are missing", _FORM)
    return None


def _read_value(text: str, name: str) -> Document:
    if text.startswith(("[", "{", '"', "'")):
        return read_value(text, name)
    if is_ambiguous(text):
        mistake = ambiguous(text, name)
        raise ConfigError(mistake.message, where=mistake.where, remedy=mistake.remedy)
    value = plain_scalar(text)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return Document(value, written={(): text} if is_number else {})

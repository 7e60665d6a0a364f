"""Environment variables in values: `${NAME}` and `${NAME:-default}`; `$${` is a literal `${`.

As in a POSIX shell the default counts where the variable is unset or empty. Only values are
interpolated, never keys, and never the rules of the permission plugin, where `$` is a shell's. The
result is text: where a number or a boolean is wanted the schema converts it. It may be a secret, so
no message holds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dsh_core.config.mistakes import KeyPath, Mistake
from dsh_core.config.source import Source
from dsh_core.config.yaml import is_utf8

RULE_LISTS = ("allow", "ask", "deny")
"""The keys of `plugins.permission` that hold rules."""

_TOKEN = re.compile(r"\$\$\{|\$\{(?:(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\})?", re.ASCII)


def interpolate(source: Source, environ: Mapping[str, str]) -> tuple[Source, list[Mistake]]:
    """Put the variables' texts in; report all that are unset and every `${` that is not closed.

    A value with a mistake keeps its text and counts as interpolated.
    """
    walker = _Walker(source, environ)
    data = walker.walk(source.data, ())
    variables = {**source.variables, **walker.variables}
    return replace(source, data=data, variables=variables), walker.mistakes


def has_variable(text: str) -> bool:
    """Whether text holds a `${` that is not a literal one."""
    return any(match[0] != "$${" for match in _TOKEN.finditer(text))


def holds_rules(path: KeyPath) -> bool:
    """Whether a key path lies in permission's rules, the harness's or an agent's."""
    below = path[2:] if path[:1] == ("agents",) else path
    return below[:2] == ("plugins", "permission") and below[2:3] != () and below[2] in RULE_LISTS


class _Walker:
    def __init__(self, source: Source, environ: Mapping[str, str]):
        self.source = source
        self.environ = environ
        self.variables: dict[KeyPath, str] = {}
        self.mistakes: list[Mistake] = []

    def walk(self, value: Any, path: KeyPath) -> Any:
        if holds_rules(path):
            return value
        if isinstance(value, dict):
            for key in filter(has_variable, value):
                self._add(
                    (*path, key),
                    "a key holds `${`, which is read in values only",
                    "Write the key out.",
                )
            return {key: self.walk(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.walk(item, (*path, index)) for index, item in enumerate(value)]
        return self._text(value, path) if isinstance(value, str) else value

    def _text(self, text: str, path: KeyPath) -> str:
        if has_variable(text):
            self.variables[path] = text
        return _TOKEN.sub(lambda match: self._token(match, path), text)

    def _token(self, match: re.Match[str], path: KeyPath) -> str:
        if match[0] == "$${":
            return "${"
        name, default = match["name"], match["default"]
        if name is None or "${" in (default or ""):
            remedy = "Write ${NAME} or ${NAME:-default}; a literal `${` is written `$${`."
            self._add(path, "`${` without a plain variable name and its `}`", remedy)
            return match[0]
        value = self.environ.get(name)
        if not value and default is not None:
            return default
        if value is None:
            remedy = f"Set {name}, or give a default: ${{{name}:-…}}."
            self._add(path, f"the environment variable {name} is not set", remedy)
            return match[0]
        if not is_utf8(value):
            message = f"the environment variable {name} is not UTF-8 text"
            self._add(path, message, "Set it anew.")
        elif not value.strip() and _is_key(path):
            remedy = f"Set it, or write ${{{name}:-}} for an endpoint that needs no key."
            self._add(path, f"the environment variable {name} is set but empty", remedy)
        return value

    def _add(self, path: KeyPath, message: str, remedy: str) -> None:
        self.mistakes.append(Mistake(self.source.where(path), message, remedy))


def _is_key(path: KeyPath) -> bool:
    return len(path) == 3 and path[0] == "providers" and path[2] == "api_key"

"""What PyYAML and libyaml say about text that is not YAML, in the user's words."""

from __future__ import annotations

import yaml

from dsh_core.config.mistakes import Place, position
from dsh_core.errors import ConfigError

LIMIT_DEPTH = 100
"""How deep values may nest: below Python's recursion limit, above any real file."""

TOO_DEEP = f"values nest deeper than {LIMIT_DEPTH} levels"

_EXPLANATIONS = (
    (
        "mapping values are not allowed",
        "a second `: ` stands on this line",
        "Put the text in quotes, or fix the indentation.",
    ),
    (
        "undefined alias",
        "an alias (*) without its anchor (&)",
        "Put text that starts with `*` in quotes.",
    ),
    (
        "expected ':'",
        "a key without `:`",
        "Write `key: value`, and check the indentation.",
    ),
    (
        "expected key",
        "this line does not continue the mapping above it",
        "Check its indentation, and quotes on the line before.",
    ),
    (
        "expected <block end>",
        "this line does not continue what is above it",
        "Check its indentation, and quotes on the line before.",
    ),
)
"""Words of PyYAML's or libyaml's message, ours, what to do."""


def syntax_error(error: Exception, text: str, name: str) -> ConfigError:
    """Turn what the parser raised into an error with place and remedy."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        message = "the file holds a control character"
        return ConfigError(message, where=f"{name}:{line}", remedy="Remove or escape it.")
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return ConfigError("this is not YAML", where=name, remedy="Check escapes in quoted text.")
    lines = text.split("\n")
    line_text = lines[mark.line] if mark.line < len(lines) else ""
    message, remedy = _explain(getattr(error, "problem", None) or "", line_text, mark.column)
    place = Place(mark.line + 1, mark.column + 1)
    return ConfigError(message, where=position(name, place), remedy=remedy)


def _explain(problem: str, line: str, column: int) -> tuple[str, str]:
    indentation = line[: len(line) - len(line.lstrip(" \t"))]
    character = line[column : column + 1]
    if "\t" in indentation or character == "\t":
        return "a tab stands where YAML wants spaces", "Replace the tab by spaces."
    if "nesting depth" in problem:
        return TOO_DEEP, "Check brackets and indentation."
    if "cannot start any token" in problem:
        return f"unquoted text cannot start with `{character}`", "Put the text in quotes."
    if "expected ',' or" in problem and "${" in line:
        return "`${NAME}` without quotes in brackets", "Put it in quotes."
    for words, message, remedy in _EXPLANATIONS:
        if words in problem:
            return message, remedy
    return problem or "this is not YAML", "Check quotes, brackets and indentation around this line."

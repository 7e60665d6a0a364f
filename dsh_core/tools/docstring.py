"""What a docstring says to the model: a summary, and a line for each parameter."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

_SECTION = re.compile(
    r"(?:args|arguments|params|parameters|keyword args|keyword arguments|other parameters"
    r"|returns?|yields?|raises|examples?):{1,2}\s*$",
    re.IGNORECASE,
)
_ARGUMENTS = re.compile(
    r"(?:args|arguments|params|parameters|keyword args|keyword arguments|other parameters)\b",
    re.IGNORECASE,
)
_UNDERLINED = re.compile(r"[A-Z][A-Za-z ]*$")
_REST_FIELD = re.compile(r":(?P<kind>\w+)(?P<words>[^:]*):(?:\s+|$)(?P<text>.*)")
_REST_PARAMETER = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_REST_KINDS = _REST_PARAMETER | {
    *("type", "return", "returns", "rtype", "raise", "raises", "except", "exception"),
    *("yield", "yields", "ytype"),
}
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\(.*?\))?\s*:(?:\s+|$)(?P<text>.*)")
_NUMPY_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")


def summary_of(function: Callable[..., Any]) -> str:
    """Return the docstring up to its first section, paragraphs kept; "" where there is none.

    Sections are those of Google (`Args:`), numpy (underlined) and reST (`:param x:`) style that
    speak of arguments, results, errors or examples; a `Note:` belongs to the summary.
    """
    lines = _lines_of(function)
    end = next((index for index in range(len(lines)) if _starts_section(lines, index)), len(lines))
    return "\n".join(lines[:end]).strip()


def parameter_docs(function: Callable[..., Any]) -> dict[str, str]:
    """Return parameter name → its description, in one line, from whatever style is used."""
    lines = _lines_of(function)
    docs: dict[str, str] = {}
    for index, line in enumerate(lines):
        if line[:1].isspace() or not line:
            continue
        if _SECTION.match(line) and _ARGUMENTS.match(line):
            docs.update(_google_entries(_indented(lines[index + 1 :])))
        elif _is_underlined(lines, index) and _ARGUMENTS.match(line):
            docs.update(_numpy_entries(lines[index + 2 :]))
        elif (field := _rest_field(line)) and field["kind"] in _REST_PARAMETER:
            name = field["words"].strip().rpartition(" ")[2].lstrip("*")
            docs[name] = _joined([field["text"], *_paragraph(lines[index + 1 :])])
    return {name: text for name, text in docs.items() if name and text}


def _lines_of(function: Callable[..., Any]) -> list[str]:
    while isinstance(function, partial):
        function = function.func
    return [line.rstrip() for line in (inspect.getdoc(function) or "").splitlines()]


def _starts_section(lines: list[str], index: int) -> bool:
    line = lines[index]
    if _SECTION.match(line) or _rest_field(line):
        return True
    return _is_underlined(lines, index) and bool(_SECTION.match(f"{line.strip()}:"))


def _is_underlined(lines: list[str], index: int) -> bool:
    below = lines[index + 1].strip() if index + 1 < len(lines) else ""
    return len(below) >= 3 and not below.strip("-=") and bool(_UNDERLINED.match(lines[index]))


def _rest_field(line: str) -> re.Match[str] | None:
    field = _REST_FIELD.match(line)
    return field if field and field["kind"] in _REST_KINDS else None


def _indented(lines: list[str]) -> list[str]:
    """Take the lines before the next that is not indented."""
    end = next(
        (index for index, line in enumerate(lines) if line and not line[0].isspace()), len(lines)
    )
    return lines[:end]


def _paragraph(lines: list[str]) -> list[str]:
    """Take the indented lines before the next blank one."""
    block = _indented(lines)
    return block[: block.index("")] if "" in block else block


def _google_entries(block: list[str]) -> Iterator[tuple[str, str]]:
    depth = min((_depth(line) for line in block if line), default=0)
    name, texts = "", list[str]()
    for line in block:
        entry = _GOOGLE_ENTRY.match(line.strip()) if _depth(line) == depth else None
        if entry is None:
            texts.append(line)
            continue
        yield name, _joined(texts)
        name, texts = entry["name"], [entry["text"]]
    yield name, _joined(texts)


def _numpy_entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    for index, line in enumerate(lines):
        if _is_underlined(lines, index):
            return
        entry = None if line[:1].isspace() else _NUMPY_ENTRY.match(line)
        if entry:
            text = _joined(_indented(lines[index + 1 :]))
            yield from ((name.strip(" *"), text) for name in entry["names"].split(","))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())

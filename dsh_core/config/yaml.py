"""The strict YAML reader: plain data, and where each value stands.

Read is what YAML 1.2's core schema and YAML 1.1 agree on; where they differ the file is refused or
the text as written counts, and nothing changes its type unnoticed:

- `true` and `false` are booleans. Unquoted `yes`, `no`, `on`, `off` and `True` are refused
  everywhere: quotes make them text, `true` and `false` booleans.
- Decimal integers without leading zeros are integers; numbers with a dot are floats. `0123`,
  `0x10`, `1e3`, `12:30`, `2026-01-02` and `.inf` are text. `Document.written` keeps a number's
  text, so that `1.10` can stay `1.10` where text is wanted.
- `null`, `~` and nothing are null.
- Refused: duplicate keys, keys that are not text, tabs as indentation, tags, merge keys, a second
  document, an anchor inside itself. Anchors and aliases are fine, within a budget.

Structure is PyYAML's business (libyaml where it is built in); the meaning of scalars is ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import yaml

from dsh_core.config.mistakes import KeyPath, Mistake, Place, at, found, position, refuse
from dsh_core.config.yaml_syntax import LIMIT_DEPTH, TOO_DEEP, syntax_error
from dsh_core.errors import ConfigError
from dsh_core.record import record

_LOADER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

LIMIT_BYTES = 1024 * 1024
"""The largest file that is read; far above anything written by hand."""

LIMIT_VALUES = 100_000
"""How many values a document may have once its aliases are copied ("billion laughs")."""

_AMBIGUOUS = re.compile(r"(?!true$|false$)(?i:yes|no|on|off|true|false)\Z")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")
_CONSTANTS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "false": False,
}


@record()
class Document:
    """What a text says.

    Args:
        data: Plain data: dict, list, str, int, float, bool, None.
        places: Key path → position.
        written: Key path → the text of a number.
    """

    data: Any
    places: Mapping[KeyPath, Place] = field(default_factory=dict)
    written: Mapping[KeyPath, str] = field(default_factory=dict)


def read_document(content: bytes, name: str) -> Document:
    """Read a file whose top is a mapping; an empty file is an empty mapping.

    Raises `ConfigError`, with all mistakes that do not hide each other.
    """
    document = read_value(_decode(content, name), name)
    if document.data is None:
        return Document({})
    if not isinstance(document.data, dict):
        raise ConfigError(
            f"the file must be a mapping, found {found(document.data, hidden=True)}",
            where=position(name, document.places[()]),
            remedy="Begin with keys such as `providers:`, `agents:` or `plugins:`.",
        )
    return document


def read_value(text: str, name: str) -> Document:
    """Read any YAML text, such as a flow list; raises `ConfigError` as `read_document` does."""
    try:
        mistakes = _check_events(text, name)
        node = yaml.compose(text, _LOADER)
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the latter by `\\U` escapes
        raise syntax_error(error, text, name) from None
    if node is None:
        return Document(None)
    builder = _Builder(name, mistakes)
    data = builder.build(node, ())
    refuse(builder.mistakes)
    return Document(data, {(): _place(node), **builder.places}, builder.written)


def plain_scalar(text: str) -> str | int | float | bool | None:
    """Resolve unquoted text as the module's docstring says; ambiguous words stay text."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.match(text):
        try:
            return int(text)
        except ValueError:  # more digits than Python converts
            return text
    if _FLOAT.match(text) and abs(number := float(text)) != float("inf"):
        return number
    return text


def is_utf8(text: str) -> bool:
    """Whether text from the command line or the environment was UTF-8 there."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_ambiguous(text: str) -> bool:
    """Whether YAML 1.1 and 1.2 disagree on this unquoted word's being a boolean."""
    return _AMBIGUOUS.match(text) is not None


def ambiguous(text: str, where: str) -> Mistake:
    """Say what is wrong with such a word."""
    meant = "true" if text.lower() in {"yes", "on", "true"} else "false"
    return Mistake(
        where,
        f"unquoted `{text}` is a boolean to some YAML readers and text to others",
        f"Write '{text}' in quotes for text, or {meant} for a boolean.",
    )


class _Builder:
    """Turns the composed graph into data; aliases become copies."""

    def __init__(self, name: str, mistakes: list[Mistake]):
        self.name = name
        self.mistakes = mistakes
        self.places: dict[KeyPath, Place] = {}
        self.written: dict[KeyPath, str] = {}
        self._values_left = LIMIT_VALUES
        self._open: set[int] = set()

    def build(self, node: yaml.Node, path: KeyPath) -> Any:
        self._values_left -= 1
        if self._values_left < 0:
            raise self._too_much(node, path, "aliases make this document too large")
        if id(node) in self._open:
            raise self._too_much(node, path, "an anchor contains an alias of itself")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        self._open.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            data: Any = [self._item(item, (*path, i)) for i, item in enumerate(node.value)]
        else:
            data = self._mapping(node, path)
        self._open.discard(id(node))
        return data

    def _item(self, node: yaml.Node, path: KeyPath) -> Any:
        self.places[path] = _place(node)
        return self.build(node, path)

    def _mapping(self, node: yaml.Node, path: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            entry = (*path, key)
            if key in data:
                first = self.places[entry].line
                self._add(
                    key_node, entry, f"the key is set twice, first on line {first}", "Keep one."
                )
                continue
            self.places[entry] = _place(key_node)
            data[key] = self.build(value_node, entry)
        return data

    def _key(self, node: yaml.Node, path: KeyPath) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._add(node, path, "a mapping or list is used as a key", "Keys are text.")
            return None
        text = str(node.value)
        if not _is_plain(node):
            return text
        if text == "<<":
            remedy = "Write the keys out, or use an alias for a whole value."
            self._add(node, path, "merge keys (<<) are not read", remedy)
            return None
        if not text:
            self._add(node, path, "a key is missing before `:`", "Write one.")
            return None
        if is_ambiguous(text) or not isinstance(plain_scalar(text), str):
            self._add(node, path, f"the key `{text}` is not text", f"Write '{text}' in quotes.")
            return None
        return text

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        text = str(node.value)
        if not _is_plain(node):
            return text
        if is_ambiguous(text):
            place = self.places.get(path, _place(node))
            self.mistakes.append(ambiguous(text, at(position(self.name, place), path)))
            return text
        value = plain_scalar(text)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.written[path] = text
        return value

    def _add(self, node: yaml.Node, path: KeyPath, message: str, remedy: str) -> None:
        where = at(position(self.name, _place(node)), path)
        self.mistakes.append(Mistake(where, message, remedy))

    def _too_much(self, node: yaml.Node, path: KeyPath, message: str) -> ConfigError:
        where = at(position(self.name, _place(node)), path[:8])
        return ConfigError(message, where=where, remedy="Write the values out.")


def _check_events(text: str, name: str) -> list[Mistake]:
    """Look at the stream before a graph is made of it: depth, documents, tags, escapes."""
    mistakes: list[Mistake] = []
    depth = documents = 0
    for event in yaml.parse(text, _LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        documents += isinstance(event, yaml.DocumentStartEvent)
        where = position(name, _place(event))
        if depth > LIMIT_DEPTH:
            raise ConfigError(TOO_DEEP, where=where, remedy="Check brackets and indentation.")
        if documents > 1:
            message = "the file holds a second document"
            raise ConfigError(
                message, where=where, remedy="Remove the `---` line and what follows."
            )
        if isinstance(event, yaml.ScalarEvent) and not is_utf8(event.value):
            message = "an escape gives half a character (a lone surrogate)"
            mistakes.append(Mistake(where, message, "Write the character itself."))
        tag = getattr(event, "tag", None)
        if tag is not None:
            message = f"tags are not read, found `{tag.replace('tag:yaml.org,2002:', '!!')}`"
            mistakes.append(Mistake(where, message, "Remove it; quotes make text."))
    return mistakes


def _decode(content: bytes, name: str) -> str:
    if len(content) > LIMIT_BYTES:
        message = f"the file has more than {LIMIT_BYTES} bytes"
        raise ConfigError(message, where=name, remedy="Is this a configuration file?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"byte 0x{content[error.start]:02x} is not UTF-8",
            where=f"{name}:{line}",
            remedy="Save the file as UTF-8.",
        ) from None


def _is_plain(node: yaml.ScalarNode) -> bool:
    return not node.style  # libyaml says "", the Python parser None


def _place(start: yaml.Node | yaml.Event) -> Place:
    mark: Any = start.start_mark
    return Place(mark.line + 1, mark.column + 1)

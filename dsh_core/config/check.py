"""Holds a source against the format and says every mistake in the user's words."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dsh_core.config.interpolate import has_variable
from dsh_core.config.mistakes import KeyPath, Mistake, did_you_mean, dotted, found, nearest
from dsh_core.config.schema import (
    WANTED,
    AgentSection,
    ConfigFile,
    ModelSection,
    ProviderSection,
)
from dsh_core.config.source import Source

_SECTIONS: tuple[tuple[int, str, type[BaseModel], str], ...] = (
    (0, "", ConfigFile, "the top of the file"),
    (2, "providers", ProviderSection, "providers.NAME"),
    (2, "agents", AgentSection, "agents.NAME"),
    (4, "providers", ModelSection, "providers.NAME.models.NAME"),
)
"""Length of a section's key path, its first key, its model, its name in messages."""

_NEAR_OPTION = 0.8
"""An adapter option that looks this much like a provider's key is taken for a slip of the pen."""


def check(source: Source) -> tuple[dict[str, Any], list[Mistake]]:
    """Return the source's values as the format reads them, only those that are set, and mistakes.

    A number stands as it was written where text is wanted.
    """
    data = copy.deepcopy(source.data)
    errors: list[ErrorDetails] = []
    for _ in range(2):
        try:
            values = ConfigFile.model_validate(data).model_dump(exclude_unset=True)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        else:
            return values, [*_option_mistakes(source), *_switch_mistakes(source)]
        restored = [_restore_text(data, each, source) for each in errors]
        if not any(restored):
            break
    mistakes = [_mistake(each, source) for each in errors]
    return {}, [*mistakes, *_option_mistakes(source), *_switch_mistakes(source)]


def without_variables(source: Source, mistakes: list[Mistake]) -> list[Mistake]:
    """Leave out mistakes about values that are not interpolated (an untrusted file's)."""
    unread = {
        source.where(path) for path in source.places if _is_variable(_value(source.data, path))
    }
    return [mistake for mistake in mistakes if mistake.where not in unread]


def _is_variable(value: object) -> bool:
    return isinstance(value, str) and has_variable(value)


def _restore_text(data: Any, error: ErrorDetails, source: Source) -> bool:
    path = error["loc"]
    text = source.written.get(path)
    if error["type"] not in {"string_type", "string_sub_type"} or text is None:
        return False
    _value(data, path[:-1])[path[-1]] = text
    return True


def _mistake(error: ErrorDetails, source: Source) -> Mistake:
    path = tuple(part for part in error["loc"] if part != "[key]")
    where = source.where(path)
    if error["type"] == "extra_forbidden":
        return Mistake(
            where, f"unknown key `{path[-1]}`", _unknown_key_remedy(path, error["input"])
        )
    value = path[-1] if error["loc"][-1:] == ("[key]",) else error["input"]
    say = _WORDS.get(error["type"], _other)
    message, remedy = say(error, value)
    return Mistake(where, f"{message}, found {found(value, hidden=source.hides(path))}", remedy)


def _wanted(error: ErrorDetails, value: object) -> tuple[str, str]:
    return error["msg"], error["ctx"]["remedy"]


def _text(error: ErrorDetails, value: object) -> tuple[str, str]:
    if isinstance(value, (bool, int, float)):
        return "text is wanted", "Write it in quotes."
    if value is None:
        return "text is wanted", "Write '' for empty text, or remove the key."
    return "text is wanted", "Write a single text."


def _mapping(error: ErrorDetails, value: object) -> tuple[str, str]:
    return "a mapping is wanted", "Write `key: value` lines below it, indented."


def _list(error: ErrorDetails, value: object) -> tuple[str, str]:
    return "a list is wanted", "Write it in brackets: [one, two]."


def _boolean(error: ErrorDetails, value: object) -> tuple[str, str]:
    return "a boolean is wanted", "Write true or false, without quotes."


def _count(error: ErrorDetails, value: object) -> tuple[str, str]:
    return "a whole number of at least 1 is wanted", "Write it in digits only."


def _choice(error: ErrorDetails, value: object) -> tuple[str, str]:
    allowed = [
        each.strip("' ") for each in str(error["ctx"]["expected"]).replace(" or ", ",").split(",")
    ]
    word = value if isinstance(value, str) else ""
    return f"one of {', '.join(allowed)} is wanted", did_you_mean(word, allowed, what="Allowed")


def _other(error: ErrorDetails, value: object) -> tuple[str, str]:
    return error["msg"], "See `dsh config schema`."


_WORDS: Mapping[str, Callable[[ErrorDetails, object], tuple[str, str]]] = {
    WANTED: _wanted,
    "string_type": _text,
    "dict_type": _mapping,
    "model_type": _mapping,
    "list_type": _list,
    "bool_type": _boolean,
    "int_type": _count,
    "greater_than_equal": _count,
    "literal_error": _choice,
}


def _unknown_key_remedy(path: KeyPath, value: object) -> str:
    word, allowed = str(path[-1]), _keys_at(path[:-1])
    if nearest(word, allowed) is not None:
        return did_you_mean(word, allowed)
    for _, _, model, section in _SECTIONS:
        if word in model.model_fields:
            return f"`{word}` belongs in {section}."
    allowed_here = did_you_mean(word, allowed, what="Allowed")
    guard = nearest(word, ("permission",), cutoff=_NEAR_OPTION)
    if len(path) == 1 or guard is not None:
        owner = "" if len(path) == 1 else f"{dotted(path[:-1])}."
        return f"{allowed_here} Settings of a plugin belong in {owner}plugins.{guard or word}."
    return allowed_here


def _keys_at(path: KeyPath) -> list[str]:
    for length, first, model, _ in _SECTIONS:
        if len(path) == length and (not first or path[0] == first):
            return list(model.model_fields)
    return []


def _option_mistakes(source: Source) -> list[Mistake]:
    """Report provider keys that would silently become options although a known one was meant."""
    mistakes = []
    known = list(ProviderSection.model_fields)
    providers = source.data.get("providers")
    for name, section in (providers if isinstance(providers, dict) else {}).items():
        for key in section if isinstance(section, dict) else ():
            near = nearest(key.replace("-", "_"), known, cutoff=_NEAR_OPTION)
            if near is not None and key != near:
                where = source.where(("providers", name, key))
                mistakes.append(Mistake(where, f"unknown key `{key}`", f"Did you mean `{near}`?"))
    return mistakes


def _switch_mistakes(source: Source) -> list[Mistake]:
    """Refuse switches in the environment and in `-s`, which give settings only."""
    if source.kind not in {"environment", "options"}:
        return []
    agents = source.data.get("agents")
    paths: list[KeyPath] = [("plugins",)]
    paths += [("agents", name, "plugins") for name in (agents if isinstance(agents, dict) else {})]
    mistakes = []
    for path in paths:
        sections = _value(source.data, path)
        for name, section in (sections if isinstance(sections, dict) else {}).items():
            if section is None or isinstance(section, bool):
                mistakes.append(
                    Mistake(
                        source.where((*path, name)),
                        "this gives settings of a plugin and does not switch it on or off",
                        f"Use `-p no:{name}`, or plugins.{name} in dsh.yaml.",
                    )
                )
    return mistakes


def _value(data: Any, path: KeyPath) -> Any:
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data

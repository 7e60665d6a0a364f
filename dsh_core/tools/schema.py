"""What a tool takes: the JSON Schema the model sees, and the check of what the model sends.

One checker (`checker`) serves signatures and schemas that tools bring, in plain Python: pydantic
is imported for annotations that need it, and only then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any, get_type_hints

from dsh_core.codec import JsonValue, freeze, to_json
from dsh_core.errors import UserError
from dsh_core.record import record
from dsh_core.tools.checker import Check
from dsh_core.tools.coerce import DEPTH_LIMIT, is_deep
from dsh_core.tools.docstring import parameter_docs
from dsh_core.tools.hints import ABSENT, Field, Translator
from dsh_core.tools.models import HintError
from dsh_core.tools.rawschema import compiled
from dsh_core.tools.tool import InvalidArgumentsError
from dsh_core.tools.violations import MisfitError, Violations


@record()
class Validated:
    """Arguments that fit, in two forms. What was not given is in neither.

    Args:
        values: Keyword arguments for the body, as its annotations have them.
        arguments: The same as read-only JSON, which policy plugins judge.

    """

    values: Mapping[str, Any]
    arguments: Mapping[str, JsonValue]


@record()
class Parameters:
    """What a tool takes.

    Args:
        schema: JSON Schema of an object, as plain JSON.
        check: The same, compiled.

    """

    schema: Mapping[str, Any]
    check: Check

    def validate(self, arguments: Mapping[str, JsonValue]) -> Validated:
        """Coerce what is clear, check the rest.

        Text that is JSON of a wanted type other than text is taken as that; an optional argument
        that is null or "" where this does not fit is taken as not given. Raises
        `InvalidArgumentsError` with everything that is wrong, and nothing else on any JSON.
        """
        found = Violations()
        try:
            validated = self._validated(arguments, found)
        except RecursionError:
            found.say(None, "are nested too deeply")
        except MisfitError as error:
            found.say_misfit(None, error)
        if found.lines:
            more = [f"and {found.unlisted} more"] if found.unlisted else []
            raise InvalidArgumentsError((*found.lines, *more))
        return validated

    def _validated(self, arguments: Mapping[str, JsonValue], found: Violations) -> Validated:
        if deep := [name for name, value in arguments.items() if is_deep(value)]:
            for name in deep:
                found.say((None, name), f"is nested more than {DEPTH_LIMIT} deep")
            return Validated({}, {})
        checked = self.check.check(arguments, None, found)
        frozen = _frozen(checked, found)
        return Validated({} if found.lines else self.check.value_of(checked, None, found), frozen)


def parameters_of(function: Callable[..., Any], skip: frozenset[str]) -> Parameters:
    """Read the parameters of a function or method, except those named in `skip`.

    Raises `UserError` for a parameter that a model cannot be told of or cannot give by name.
    """
    translator = Translator()
    try:
        fields = [_field(function, parameter) for parameter in _parameters(function, skip)]
        schema = translator.object_of(fields, parameter_docs(function))
    except HintError as error:
        raise _error(
            function,
            f"has a parameter without a JSON form: {error}",
            "Use str, int, float, bool, Path, Literal, lists and mappings of these, "
            "a dataclass or a pydantic model.",
        ) from error
    if translator.definitions:
        schema["$defs"] = translator.definitions
    return Parameters(to_json(schema), compiled(schema))


def parameters_from_schema(schema: Mapping[str, Any]) -> Parameters:
    """Take parameters from a JSON Schema of an object.

    `values` of what it validates are plain JSON. Raises `UserError` if it is no such schema.
    """
    check = compiled(schema)
    if not check.could_be({}):
        raise UserError(
            f"a tool's arguments are an object, not {schema.get('type')!r}",
            where="#/type",
            remedy='Wrap the schema: {"type": "object", "properties": {"value": …}}.',
        )
    return Parameters(to_json(schema), check)


def _parameters(function: Callable[..., Any], skip: frozenset[str]) -> Iterator[inspect.Parameter]:
    """Yield the parameters the model sees; refuse those it cannot give by name."""
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        name, kind = parameter.name, parameter.kind
        is_bare = parameter.annotation is inspect.Parameter.empty
        if name in skip or (is_bare and index == 0 and name in ("self", "cls")):
            continue
        if kind is inspect.Parameter.VAR_POSITIONAL:
            remedy = f"Take a list instead, as in `{name}: list[str]`."
            raise _error(function, f"takes `*{name}`, which has no name to the model", remedy)
        if kind is inspect.Parameter.VAR_KEYWORD:
            remedy = f"Name each, or take a mapping, as in `{name}: dict[str, str]`."
            raise _error(function, f"takes `**{name}`, which the model cannot know", remedy)
        if kind is inspect.Parameter.POSITIONAL_ONLY:
            remedy = "Remove the `/` from the signature: arguments are given by name."
            raise _error(function, f"takes `{name}` by position only", remedy)
        if is_bare:
            remedy = f"Write its type, as in `{name}: str`."
            raise _error(function, f"has no annotation for `{name}`", remedy)
        yield parameter


def _field(function: Callable[..., Any], parameter: inspect.Parameter) -> Field:
    name, default = parameter.name, parameter.default
    if type(default).__name__ == "FieldInfo":
        remedy = f"Write `{name}: Annotated[…, Field(…)] = default`."
        raise _error(function, f"has a pydantic Field as the default of `{name}`", remedy)
    holder = SimpleNamespace(__annotations__={name: parameter.annotation})
    namespace = getattr(_body(function), "__globals__", {})
    try:
        hint = get_type_hints(holder, globalns=namespace, include_extras=True)[name]
    except Exception as error:  # an annotation is code, which may raise anything
        raise _error(
            function,
            f"has an annotation of `{name}` that cannot be read: {error}",
            "Import or define what it names at the top of the module, not under TYPE_CHECKING.",
        ) from error
    return Field(name, hint, default is ABSENT, default)


def _body(function: Callable[..., Any]) -> Any:
    """Return what holds code and globals: behind `partial`, decorators and `__call__`."""
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    return function if hasattr(function, "__code__") else type(function).__call__


def _error(function: Callable[..., Any], text: str, remedy: str) -> UserError:
    body = _body(function)
    name = getattr(body, "__qualname__", repr(function))
    code = getattr(body, "__code__", None)
    where = f"{code.co_filename}:{code.co_firstlineno}" if code else None
    return UserError(f"the tool function {name} {text}", where=where, remedy=remedy)


def _frozen(checked: Mapping[str, JsonValue], found: Violations) -> Mapping[str, JsonValue]:
    """Freeze the arguments; name each that no log can hold, such as NaN or half a character."""
    frozen: dict[str, JsonValue] = {}
    for name, value in checked.items():
        try:
            frozen[freeze(name)] = freeze(value)
        except ValueError as error:
            found.say((None, name), str(error))
    return MappingProxyType(frozen)

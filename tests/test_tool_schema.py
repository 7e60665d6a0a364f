from __future__ import annotations

import json
import subprocess
import sys
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import Enum, IntEnum
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType, NotRequired, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict as ExtendedTypedDict

from dsh_core.errors import UserError
from dsh_core.tools.coerce import DEPTH_LIMIT
from dsh_core.tools.schema import Parameters, parameters_of
from dsh_core.tools.tool import InvalidArgumentsError

if TYPE_CHECKING:
    from dsh_core.tools.tool import ToolContext


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Edit:
    """One edit.

    Args:
        old: Text to find.
    """

    old: str
    new: str = ""
    at: Path | None = None
    tags: list[str] = field(default_factory=list)

    def __post_init__(self):
        if self.old == self.new:
            raise ValueError("old and new are the same")


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


class Span(typing.TypedDict):
    start: int
    end: NotRequired[int]


class Where(ExtendedTypedDict, total=False):
    line: int


class Point(BaseModel):
    model_config = ConfigDict(strict=True)

    x: int = Field(ge=0)
    day: date | None = None
    colour: Colour = Colour.RED

    @field_validator("x")
    @classmethod
    def is_even(cls, value):
        if value % 2:
            raise ValueError("must be even")
        return value


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float
    shapes: list[Shape] = []


Shape = Annotated[Circle | Square, Field(discriminator="kind")]
Square.model_rebuild()
UserId = NewType("UserId", int)


class NotJson:
    pass


def of(annotation: Any, *default: Any) -> Parameters:
    """Parameters of a function whose only parameter `x` has this annotation."""

    def function(x):
        pass

    function.__annotations__ = {"x": annotation}
    function.__defaults__ = default or None
    return parameters_of(function, frozenset())


def schema_of(annotation: Any, *default: Any) -> Any:
    return of(annotation, *default).schema["properties"]["x"]


def value_of(annotation: Any, value: Any, *default: Any) -> Any:
    return of(annotation, *default).validate({"x": value}).values["x"]


def violations(parameters: Parameters, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    with pytest.raises(InvalidArgumentsError) as caught:
        parameters.validate(arguments)
    return caught.value.violations


def violation_of(annotation: Any, value: Any) -> str:
    (violation,) = violations(of(annotation), {"x": value})
    return violation


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def edit(
    path: Path,
    old_string: str,
    offset: int = 0,
    *,
    replace_all: bool = False,
    paths: list[str] | None = None,
    ctx: ToolContext,
) -> None:
    """Edit a file.

    Args:
        path: File to edit,
            relative to here.
        offset: First line.
    """


EDIT = parameters_of(edit, frozenset({"ctx"}))


# What the model sees


def test_a_signature_and_its_docstring_become_a_closed_schema():
    assert EDIT.schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "File to edit, relative to here."},
            "old_string": {"type": "string"},
            "offset": {"type": "integer", "description": "First line.", "default": 0},
            "replace_all": {"type": "boolean", "default": False},
            "paths": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["path", "old_string"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Path, {"type": "string"}),
        (Any, {}),
        (object, {}),
        (UserId, {"type": "integer"}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[Path], {"type": "array", "items": {"type": "string"}}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (
            tuple[str, int],
            {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": "integer"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (dict, {"type": "object", "additionalProperties": True}),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (int | Any, {}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Annotated[int, "How many."], {"type": "integer", "description": "How many."}),
        (
            Annotated[int, Field(ge=1, description="How many.")],
            {"type": "integer", "minimum": 1, "description": "How many."},
        ),
        (
            Span,
            {
                "type": "object",
                "properties": {"start": {"type": "integer"}, "end": {"type": "integer"}},
                "required": ["start"],
                "additionalProperties": False,
            },
        ),
        (
            Where,
            {
                "type": "object",
                "properties": {"line": {"type": "integer"}},
                "additionalProperties": False,
            },
        ),
        (
            Edit,
            {
                "type": "object",
                "properties": {
                    "old": {"type": "string", "description": "Text to find."},
                    "new": {"type": "string", "default": ""},
                    "at": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["old"],
                "additionalProperties": False,
            },
        ),
    ],
    ids=str,
)
def test_an_annotation_becomes_the_schema_of_its_json(annotation, schema):
    assert schema_of(annotation) == schema


@pytest.mark.parametrize(
    ("annotation", "default", "shown"),
    [
        (Path, Path("src"), "src"),
        (Colour, Colour.BLUE, "blue"),
        (tuple[int, ...], (1, 2), [1, 2]),
        (dict, {"a": (1,)}, {"a": [1]}),
    ],
)
def test_a_default_is_shown_as_json(annotation, default, shown):
    assert schema_of(annotation, default)["default"] == shown


@pytest.mark.parametrize("default", [float("inf"), NotJson(), {1: 2}, "\ud800"])
def test_a_default_without_json_form_is_not_shown_and_still_makes_it_optional(default):
    parameters = of(Any, default)

    assert parameters.schema["properties"] == {"x": {}}
    assert "required" not in parameters.schema


def test_a_description_next_to_the_type_wins_over_the_docstring():
    def function(a: Annotated[int, "Said here."], b: Annotated[int, Field(description="And here")]):
        """Do it.

        Args:
            a: Not this.
            b: Nor this.
        """

    function.__annotations__ = {
        "a": Annotated[int, "Said here."],
        "b": Annotated[int, Field(description="And here.")],
    }
    properties = parameters_of(function, frozenset()).schema["properties"]

    assert properties["a"]["description"] == "Said here."
    assert properties["b"]["description"] == "And here."


def test_self_is_never_shown_bound_or_not():
    class Owner:
        def body(self, x: int) -> None: ...

    assert list(parameters_of(Owner().body, frozenset()).schema["properties"]) == ["x"]
    assert list(parameters_of(Owner.body, frozenset()).schema["properties"]) == ["x"]


def test_decorated_partial_and_callable_bodies_are_read_where_they_were_written():
    @wraps(edit)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    class Callable:
        def __call__(self, x: Path) -> None: ...

    skip = frozenset({"ctx"})

    assert parameters_of(wrapper, skip).schema == EDIT.schema
    assert parameters_of(partial(edit, "a"), skip).schema["required"] == ["old_string"]
    assert parameters_of(Callable(), skip).validate({"x": "a"}).values == {"x": Path("a")}


def test_two_models_of_one_name_are_both_defined():
    def make(kind: type) -> type[BaseModel]:
        class Inner(BaseModel):
            value: kind

        class Outer(BaseModel):
            inner: Inner

        return Outer

    def function(a, b): ...

    function.__annotations__ = {"a": make(int), "b": make(str)}
    parameters = parameters_of(function, frozenset())

    assert len(parameters.schema["$defs"]) == 2
    assert violations(
        parameters, {"a": {"inner": {"value": "x"}}, "b": {"inner": {"value": 1}}}
    ) == (
        "`a.inner.value`: expected an integer, got 'x'",
        "`b.inner.value`: expected a string, got 1; numbers are not turned into text, so quote it",
    )


# What the body gets


@pytest.mark.parametrize(
    ("annotation", "value", "made"),
    [
        (Path, "a.txt", Path("a.txt")),
        (Path | None, None, None),
        (Path | None, "a", Path("a")),
        (int | Path, "a", Path("a")),
        (list[Path], ["a"], [Path("a")]),
        (tuple[Path, int], ["a", 1], (Path("a"), 1)),
        (tuple[int, ...], [1, 2], (1, 2)),
        (set[str], ["a", "a"], {"a"}),
        (dict[str, Path], {"k": "a"}, {"k": Path("a")}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (float, 2, 2.0),
        (Colour, "red", Colour.RED),
        (Level, 2, Level.HIGH),
        (Literal[Colour.RED], "red", Colour.RED),
        (Edit, {"old": "a", "at": "f"}, Edit("a", at=Path("f"))),
        (list[Edit], [{"old": "a"}], [Edit("a")]),
        (Edit | str, {"old": "a"}, Edit("a")),
        (Tree, {"name": "a", "children": [{"name": "b"}]}, Tree("a", [Tree("b")])),
        (Span, {"start": 1}, {"start": 1}),
        (date, "2026-01-02", date(2026, 1, 2)),
        (Point, {"x": 2, "day": "2026-01-02"}, Point(x=2, day=date(2026, 1, 2))),
        (list[Point | None], [{"x": 2}, None], [Point(x=2), None]),
        (Node, {"value": 1, "children": [{"value": 2}]}, Node(value=1, children=[Node(value=2)])),
        (
            Shape,
            {"kind": "square", "side": 1, "shapes": [{"kind": "circle", "radius": 2}]},
            Square(kind="square", side=1, shapes=[Circle(kind="circle", radius=2)]),
        ),
    ],
    ids=str,
)
def test_the_body_gets_values_of_the_annotated_types(annotation, value, made):
    validated = of(annotation).validate({"x": value})

    assert validated.values == {"x": made}
    assert type(validated.values["x"]) is type(made)
    assert json.loads(json.dumps(validated.arguments["x"], default=dict)) == value


def test_what_was_not_given_is_left_to_the_function():
    validated = EDIT.validate({"path": "a", "old_string": "b"})

    assert validated.values == {"path": Path("a"), "old_string": "b"}
    assert validated.arguments == {"path": "a", "old_string": "b"}


def test_the_body_may_change_what_it_gets_without_changing_what_was_judged():
    given_arguments = {"x": {"a": [1]}}
    validated = of(dict).validate(given_arguments)
    validated.values["x"]["a"].append(2)

    assert validated.arguments == {"x": {"a": (1,)}}
    assert given_arguments == {"x": {"a": [1]}}
    with pytest.raises(TypeError):
        validated.arguments["x"] = 1  # type: ignore[index]


# Coercion


@pytest.mark.parametrize(
    ("annotation", "value", "coerced"),
    [
        (int, "2", 2),
        (int, " -2 ", -2),
        (int, 2.0, 2),
        (int, "2.0", 2),
        (float, "2.5", 2.5),
        (float, -0.0, 0.0),
        (bool, "true", True),
        (bool, "True", True),
        (bool, "false", False),
        (int | None, "3", 3),
        (int | None, "null", None),
        (list[str], '["a"]', ["a"]),
        (list[int], ["1", 2.0], [1, 2]),
        (list[int] | None, "[1]", [1]),
        (dict[str, int], '{"a": "1"}', {"a": 1}),
        (list[Edit], '[{"old": "a"}]', [Edit("a")]),
        (Level, "2", Level.HIGH),
        (Literal[1, 2], "2", 2),
        (int | list[int], "[1]", [1]),
        (Point, '{"x": "2"}', Point(x=2)),
        (str, "2", "2"),
        (str | int, "2", "2"),
        (str | list[str], '["a"]', '["a"]'),
        (Any, "2", "2"),
        (list[Any], ["2"], ["2"]),
    ],
    ids=str,
)
def test_text_counts_as_what_it_clearly_says_where_no_text_is_wanted(annotation, value, coerced):
    result = value_of(annotation, value)

    assert result == coerced
    assert type(result) is type(coerced)


@pytest.mark.parametrize(
    ("annotation", "value", "violation"),
    [
        (int, "abc", "`x`: expected an integer, got 'abc'"),
        (int, "2.5", "`x`: expected an integer, got '2.5'"),
        (int, 2.5, "`x`: expected an integer, got 2.5"),
        (int, True, "`x`: expected an integer, got true"),
        (int, "true", "`x`: expected an integer, got 'true'"),
        (int, None, "`x`: expected an integer, got null"),
        (int, "", "`x`: expected an integer, got ''"),
        (int, 1e300, "`x`: expected an integer, got 1e+300"),
        (float, "NaN", "`x`: expected a number, got 'NaN'"),
        (float, False, "`x`: expected a number, got false"),
        (float, 10**400, "`x`: int too large to convert to float"),
        (bool, 1, "`x`: expected true or false, got 1"),
        (bool, "yes", "`x`: expected true or false, got 'yes'"),
        (
            str,
            5,
            "`x`: expected a string, got 5; numbers are not turned into text, so quote it",
        ),
        (str, True, "`x`: expected a string, got true"),
        (str, {"a": 1}, "`x`: expected a string, got an object"),
        (list[str], "a.txt", "`x`: expected a list, got 'a.txt'"),
        (list[int], [1, "b"], "`x[1]`: expected an integer, got 'b'"),
        (int | None, [], "`x`: expected an integer or null, got a list"),
        (
            int | bool | list[str],
            {},
            "`x`: expected an integer, true or false or a list, got an object",
        ),
        (Literal["a", "b"], "c", "`x`: expected one of 'a', 'b', got 'c'"),
        (Literal[1], True, "`x`: expected an integer, got true"),
        (tuple[str, int], ["a"], "`x`: expected at least 2 items, got 1"),
        (Annotated[int, Field(ge=1)], 0, "`x`: expected at least 1, got 0"),
        (Annotated[int, Field(multiple_of=2)], 1, "`x`: Input should be a multiple of 2"),
        (Span, {"end": 1}, "`x.start`: is missing"),
        (Span, {"start": 1, "stop": 2}, "`x.stop`: unknown field; there is `start`, `end`"),
        (Edit, {"old": "a", "new": "a"}, "`x`: old and new are the same"),
        (list[Point], [{"x": 2}, {"x": 3}], "`x[1].x`: must be even"),
        (Tree, {"name": "a", "children": [{}]}, "`x.children[0].name`: is missing"),
        (Shape, {"kind": "circle"}, "`x.radius`: is missing"),
        (Circle | int, {"kind": "line", "radius": 1}, "`x.kind`: expected 'circle', got 'line'"),
        (
            Shape,
            {"kind": "line"},
            "`x`: fits none of its forms (`x.kind`: expected 'circle', got 'line' | "
            "`x.kind`: expected 'square', got 'line')",
        ),
        (str, "a\ud800", "`x`: a lone surrogate at character 1 is not text"),
        (Any, [float("nan")], "`x`: nan is not JSON"),
        (Any, nested(DEPTH_LIMIT), f"`x`: is nested more than {DEPTH_LIMIT} deep"),
        (int, "9" * 5000, f"`x`: expected an integer, got '{'9' * 60}'…"),
        (
            str,
            10**5000,
            "`x`: expected a string, got an integer of more than 60 digits; "
            "numbers are not turned into text, so quote it",
        ),
    ],
    ids=lambda value: str(value)[:40] if not isinstance(value, int) else "number",
)
def test_everything_else_is_refused_by_field_and_type(annotation, value, violation):
    assert violation_of(annotation, value) == violation


@pytest.mark.parametrize("empty", [None, ""])
@pytest.mark.parametrize(
    "annotation", [int, float, bool, list[str], dict[str, int], Literal["a"], Edit, Point], ids=str
)
def test_an_optional_argument_that_is_empty_where_that_does_not_fit_was_not_given(
    annotation, empty
):
    validated = of(annotation, 1).validate({"x": empty})

    assert validated.values == {}
    assert validated.arguments == {}


def test_an_empty_optional_argument_is_kept_where_it_fits():
    assert value_of(str, "", "a") == ""
    assert value_of(int | None, None, 1) is None
    assert value_of(Any, None, 1) is None


def test_every_violation_is_said_at_once():
    arguments = {"old_strng": "a", "offset": "abc", "replace_all": "maybe", "paths": [1]}

    assert violations(EDIT, arguments) == (
        "`old_strng`: unknown argument; did you mean `old_string`?",
        "`offset`: expected an integer, got 'abc'",
        "`replace_all`: expected true or false, got 'maybe'",
        "`paths[0]`: expected a string, got 1; numbers are not turned into text, so quote it",
        "`path`: is missing",
        "`old_string`: is missing",
    )


def test_a_skipped_parameter_is_unknown_to_the_model():
    (violation,) = violations(EDIT, {"path": "a", "old_string": "b", "ctx": 1})

    assert violation.startswith("`ctx`: unknown argument; there is `path`, ")


def test_a_million_misfits_are_counted_and_not_listed():
    found = violations(of(list[int]), {"x": ["a"] * 1000})

    assert len(found) == 51
    assert found[-1] == "and 950 more"


# Signatures no model can use


def bare(path): ...


def star(*paths: str): ...


def keywords(**options: str): ...


def positional(path: str, /): ...


def unresolved(path: Missing): ...  # noqa: F821


def field_default(count: int = Field(default=3)): ...


def without_json(path: list[NotJson]): ...


@pytest.mark.parametrize(
    ("function", "name", "remedy"),
    [
        (bare, "`path`", "`path: str`"),
        (star, "`*paths`", "`paths: list[str]`"),
        (keywords, "`**options`", "`options: dict[str, str]`"),
        (positional, "`path`", "Remove the `/`"),
        (unresolved, "`path`", "not under TYPE_CHECKING"),
        (field_default, "`count`", "`count: Annotated["),
        (without_json, "`path`", "a dataclass or a pydantic model"),
    ],
)
def test_an_unusable_parameter_is_named_with_its_function_and_a_remedy(function, name, remedy):
    with pytest.raises(UserError) as caught:
        parameters_of(function, frozenset())

    assert f"tool function {function.__name__} " in caught.value.message
    assert name in caught.value.message
    assert remedy in str(caught.value.remedy)
    assert caught.value.where == f"{__file__}:{function.__code__.co_firstlineno}"


# Properties

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=6)
    | st.sampled_from(["", "1", "true", "null", "[1]", '{"x": 2}', "red", "circle", "x", "old"])
)
keys = st.text(max_size=3) | st.sampled_from(["x", "old", "new", "kind", "radius", "value", "left"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
) | st.builds(nested, st.sampled_from([DEPTH_LIMIT - 2, 5000]))

ANNOTATIONS = (
    *(str, int, float, bool, Path, Any, Colour, Level, Edit, Span, Tree, Point, Node, Shape),
    *(list[int], set[str], dict[str, float], tuple[str, int], int | None, int | str, date),
    *(list[Path] | dict[str, int], Literal["a", 1, None], list[Edit | Path], dict[int, str]),
)
EVERYTHING = [of(annotation) for annotation in ANNOTATIONS]
EVERYTHING += [of(annotation, None) for annotation in ANNOTATIONS]
EVERYTHING.append(EDIT)


@given(arguments=st.dictionaries(keys, values, max_size=3) | st.fixed_dictionaries({"x": values}))
def test_any_json_is_validated_or_refused_and_what_was_validated_stays_as_it_is(arguments):
    for parameters in EVERYTHING:
        try:
            validated = parameters.validate(arguments)
        except InvalidArgumentsError as error:
            str(error).encode()
        else:
            assert parameters.validate(validated.arguments) == validated


# Cost


def test_a_simple_signature_needs_neither_pydantic_nor_httpx():
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from typing import Annotated, Literal\n"
        "from dsh_core.tools.schema import parameters_of\n"
        "def read(path: Path, offset: int = 1, tags: Annotated[list[str] | None, 'Tags.'] = None,\n"
        "         mode: Literal['a', 'b'] = 'a'): ...\n"
        "parameters_of(read, frozenset()).validate({'path': 'a', 'offset': '2'})\n"
        "print(sorted({'pydantic', 'pydantic_core', 'httpx', 'yaml'} & set(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.stderr == ""
    assert run.stdout == "[]\n"

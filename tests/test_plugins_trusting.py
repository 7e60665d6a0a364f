"""Which settings of a plugin count in an untrusted file, wherever their marks stand."""

from __future__ import annotations

import dataclasses
from importlib.metadata import entry_points
from typing import Annotated, Any, NewType, Optional

import pydantic
import pytest

from dsh_core import ADD, TRUSTED_ONLY, UNTRUSTED_OK, Harness, HarnessConfig, Layer
from dsh_core.builtin import BUILTIN_PLUGINS
from dsh_core.errors import UserError
from dsh_core.plugins.trusting import admitted, marked, rules_of

NARROWING = {"permission": {"ask", "deny", "protected"}}
"""All that first-party plugins let an untrusted file say: rules that add up and forbid or ask."""


def plugin_settings() -> dict[str, type[Any]]:
    """Return the `Settings` of every plugin that is installed here."""
    harness = Harness()
    names = [*BUILTIN_PLUGINS, *(point.name for point in entry_points(group="dsh"))]
    targets = {name: harness.plugins.target(name) for name in names}
    return {n: t.Settings for n, t in targets.items() if hasattr(t, "Settings")}


@pytest.mark.parametrize(("name", "settings"), plugin_settings().items())
def test_no_setting_of_ours_counts_untrusted_but_rules_that_narrow(
    name: str, settings: type[Any]
) -> None:
    assert marked(settings, UNTRUSTED_OK) <= NARROWING.get(name, set())


def test_ours_are_looked_at() -> None:
    assert {"agent_loop", "files", "limits", "retry", "shell"} <= plugin_settings().keys()


@pytest.mark.parametrize(
    ("plugin", "values"),
    [
        ("retry", {"max_retries": 9999, "initial_delay_seconds": 0, "codes": ["AUTH"]}),
        ("agent_loop", {"grace_seconds": 1e9}),
        ("shell", {"max_timeout_seconds": 1e9, "max_jobs": 10**6, "spill_limit_bytes": 10**15}),
        ("files", {"allow": ["/"], "read_limit_bytes": 10**12}),
        ("limits", {"max_steps": None}),
    ],
)
def test_an_untrusted_file_changes_no_limit(plugin: str, values: dict[str, Any]) -> None:
    layer = Layer("dsh.yaml", values, trusted=False, settings_only=True)
    harness = Harness(HarnessConfig(plugins={plugin: (layer,)}))
    harness.load()
    info = next(info for info in harness.plugins.infos() if info.name == plugin)

    assert info.settings == type(info.settings)()
    assert [note.split()[1] for note in harness.plugins.notes] == [
        f"plugins.{plugin}.{name}" for name in values
    ]


# ------------------------------------------------------------------------------------ where marks


@dataclasses.dataclass(frozen=True)
class Inner:
    secret: Annotated[str, TRUSTED_ONLY] = ""
    plain: int = 0
    safe: Annotated[int, UNTRUSTED_OK] = 0


class InnerModel(pydantic.BaseModel):
    secret: Annotated[str, TRUSTED_ONLY] = pydantic.Field("", alias="hidden")
    plain: int = 0
    safe: Annotated[int, UNTRUSTED_OK] = 0


@dataclasses.dataclass(frozen=True)
class Node:
    deeper: Node | None = None
    secret: Annotated[str, TRUSTED_ONLY] = ""
    plain: int = 0


Named = NewType("Named", str)


@dataclasses.dataclass(frozen=True)
class Data:
    plain: int = 0
    safe: Annotated[int, UNTRUSTED_OK] = 0
    union: Annotated[list[str], UNTRUSTED_OK] | None = None
    optional: Optional[Annotated[int, UNTRUSTED_OK]] = None  # noqa: UP045 - the form is tested
    metadata: int = dataclasses.field(default=0, metadata={"trust": UNTRUSTED_OK})
    closed: Inner = Inner()
    open: Annotated[Inner | None, UNTRUSTED_OK] = None
    model: Annotated[InnerModel | None, UNTRUSTED_OK] = None
    either: Annotated[Inner | Node | str, UNTRUSTED_OK] = ""
    node: Annotated[Node | None, UNTRUSTED_OK] = None
    named: Annotated[Named, UNTRUSTED_OK] = Named("")
    table: Annotated[dict[str, Any], UNTRUSTED_OK] = dataclasses.field(default_factory=dict)
    both: Annotated[Annotated[int, UNTRUSTED_OK] | None, ADD] = None


class Model(pydantic.BaseModel):
    plain: int = 0
    safe: Annotated[int, UNTRUSTED_OK] = 0
    union: Annotated[list[str], UNTRUSTED_OK] | None = None
    optional: Annotated[int, UNTRUSTED_OK] | None = None
    metadata: Annotated[int, pydantic.Field(ge=0), UNTRUSTED_OK] = 0
    closed: Inner = Inner()
    open: Annotated[Inner | None, UNTRUSTED_OK] = None
    model: Annotated[InnerModel | None, UNTRUSTED_OK] = None
    either: Annotated[Inner | Node | str, UNTRUSTED_OK] = ""
    node: Annotated[Node | None, UNTRUSTED_OK] = None
    named: Annotated[Named, UNTRUSTED_OK] = Named("")
    table: Annotated[dict[str, Any], UNTRUSTED_OK] = {}
    both: Annotated[Annotated[int, UNTRUSTED_OK] | None, ADD] = None


@pytest.mark.parametrize("kind", [Data, Model])
@pytest.mark.parametrize(
    ("values", "kept", "ignored"),
    [
        ({"plain": 1}, {}, ["plain"]),
        ({"safe": 1, "union": ["a"]}, {"safe": 1, "union": ["a"]}, []),
        ({"optional": 1}, {"optional": 1}, []),
        ({"metadata": 1, "named": "n", "both": 2}, {"metadata": 1, "named": "n", "both": 2}, []),
        (
            {"closed": {"secret": "s", "plain": 1, "safe": 2}},
            {"closed": {"safe": 2}},
            ["closed.secret", "closed.plain"],
        ),
        ({"closed": None}, {}, ["closed"]),
        (
            {"open": {"secret": "s", "plain": 1, "safe": 2}},
            {"open": {"plain": 1, "safe": 2}},
            ["open.secret"],
        ),
        ({"open": None}, {}, ["open"]),
        ({"open": "text"}, {}, ["open"]),
        ({"model": {"hidden": "s", "plain": 1}}, {"model": {"plain": 1}}, ["model.hidden"]),
        (
            {"either": {"secret": "s", "deeper": {"secret": "t", "plain": 1}}},
            {"either": {"deeper": {"plain": 1}}},
            ["either.secret", "either.deeper.secret"],
        ),
        (
            {"node": {"deeper": {"deeper": {"secret": "s", "plain": 1}}}},
            {"node": {"deeper": {"deeper": {"plain": 1}}}},
            ["node.deeper.deeper.secret"],
        ),
        ({"table": {"a": {"secret": 1}}}, {"table": {"a": {"secret": 1}}}, []),
    ],
)
def test_the_innermost_mark_around_a_value_decides(
    kind: type[Any], values: dict[str, Any], kept: dict[str, Any], ignored: list[str]
) -> None:
    admits, paths = admitted(kind, values)

    assert admits == kept
    assert [".".join(path) for path in paths] == ignored


@pytest.mark.parametrize("mark", [ADD, TRUSTED_ONLY, UNTRUSTED_OK])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("holder", ["list", "tuple", "dict"])
def test_a_mark_on_what_a_field_holds_is_refused(mark: Any, holder: str, depth: int) -> None:
    hint: Any = Annotated[str, mark]
    for _ in range(depth):
        hint = {"list": list[hint], "tuple": tuple[hint, ...], "dict": dict[str, hint]}[holder]
    kind = dataclasses.make_dataclass("Holds", [("field", hint)])
    with pytest.raises(TypeError, match=rf"{mark} on what Holds.field holds has no effect: mark"):
        rules_of(kind)


def test_a_mark_in_a_class_that_a_list_holds_is_refused_too() -> None:
    kind = dataclasses.make_dataclass("Holds", [("field", Annotated[list[Node], UNTRUSTED_OK])])
    with pytest.raises(TypeError, match=r"TRUSTED_ONLY on what Holds.field holds has no effect"):
        rules_of(kind)


def test_lists_of_a_nested_class_cannot_add_up() -> None:
    nested = dataclasses.make_dataclass("Nested", [("rules", Annotated[list[str], ADD])])
    kind = dataclasses.make_dataclass("Outer", [("nested", nested)])
    with pytest.raises(TypeError, match=r"ADD on Nested.rules has no effect: only lists in Outer"):
        rules_of(kind)


def test_two_marks_that_contradict_each_other_are_refused() -> None:
    hint = Annotated[Annotated[str, UNTRUSTED_OK] | None, TRUSTED_ONLY]
    kind = dataclasses.make_dataclass("Torn", [("field", hint)])
    with pytest.raises(TypeError, match=r"Torn.field is both TRUSTED_ONLY and UNTRUSTED_OK"):
        rules_of(kind)


def test_a_mark_on_what_is_no_setting_is_refused() -> None:
    hidden = dataclasses.field(init=False, default=1)
    kind = dataclasses.make_dataclass("Own", [("count", Annotated[int, UNTRUSTED_OK], hidden)])
    with pytest.raises(TypeError, match=r"UNTRUSTED_OK on Own.count has no effect"):
        rules_of(kind)


def test_a_type_that_names_itself_is_read() -> None:
    class Loose(pydantic.BaseModel):
        anything: Annotated[pydantic.JsonValue, UNTRUSTED_OK] = None

    assert admitted(Loose, {"anything": [{"a": 1}]}) == ({"anything": [{"a": 1}]}, [])


def test_a_misplaced_mark_stops_the_plugin_and_names_it() -> None:
    @dataclasses.dataclass(frozen=True)
    class Misplaced:
        names: tuple[Annotated[str, TRUSTED_ONLY], ...] = ()

    class Policy:
        Settings = Misplaced

        def __init__(self, settings: Misplaced):
            self.settings = settings

    harness = Harness(HarnessConfig(), plugins={"policy": Policy})
    with pytest.raises(UserError, match=r"(?s)policy.*TRUSTED_ONLY on what Misplaced.names holds"):
        harness.load()

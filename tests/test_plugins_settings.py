"""How the layers of a plugin's settings are merged and validated, and what mistakes say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import pydantic
import pytest

from dsh_core.config.model import Layer
from dsh_core.errors import ConfigError
from dsh_core.marks import ADD, TRUSTED_ONLY, UNTRUSTED_OK
from dsh_core.plugins.settings import admit, build, json_schema, merge, placed
from dsh_core.plugins.trusting import field_names, marked


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    memory: int = 1
    name: str = "n"


@dataclasses.dataclass(frozen=True, slots=True)
class Data:
    deny: Annotated[list[str], ADD, UNTRUSTED_OK] = dataclasses.field(default_factory=list)
    mode: Annotated[str, TRUSTED_ONLY] = "ask"
    timeout_seconds: float = 1.0
    version: str = "1"
    tags: tuple[str, ...] = ()
    limits: Limits = Limits()
    env: dict[str, str] = dataclasses.field(default_factory=dict)


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    deny: Annotated[list[str], ADD, UNTRUSTED_OK] = []
    mode: Annotated[str, TRUSTED_ONLY] = "ask"
    timeout_seconds: float = 1.0
    version: str = "1"
    tags: tuple[str, ...] = ()
    limits: Limits = Limits()
    env: dict[str, str] = {}


BOTH = pytest.mark.parametrize("kind", [Data, Model])


def layer(source: str, values: Any, **options: Any) -> Layer:
    return Layer(source, values, **options)


def made(kind: type[Any], *layers: Layer, prefix: str = "plugins.p") -> Any:
    given, _ = admit(kind, "p", placed(prefix, layers))
    return build(kind, "p", merge(kind, given), given)


def refused(kind: type[Any], *layers: Layer, prefix: str = "plugins.p") -> str:
    with pytest.raises(ConfigError) as caught:
        made(kind, *layers, prefix=prefix)
    return str(caught.value)


@BOTH
def test_scalars_and_lists_replace_and_mappings_merge_by_key(kind: type[Any]) -> None:
    settings = made(
        kind,
        layer("user", {"timeout_seconds": 2, "tags": ["a", "b"], "env": {"A": "1", "B": "1"}}),
        layer("project", {"tags": ["c"], "env": {"B": "2"}, "limits": {"memory": 5}}),
        layer("-s", {"limits": {"name": "x"}}),
    )
    assert settings.timeout_seconds == 2.0
    assert settings.tags == ("c",)
    assert settings.env == {"A": "1", "B": "2"}
    assert settings.limits == Limits(5, "x")


@BOTH
def test_fields_marked_add_add_up_and_no_layer_removes_an_entry(kind: type[Any]) -> None:
    settings = made(
        kind,
        layer("user", {"deny": ["a", "b"]}),
        layer("project", {"deny": []}),
        layer("agents", {"deny": ("b", "c")}),
    )
    assert settings.deny == ["a", "b", "c"]


@BOTH
@pytest.mark.parametrize("value", [None, "Bash", {"a": 1}])
def test_what_is_no_list_cannot_replace_rules_that_add_up(kind: type[Any], value: Any) -> None:
    message = refused(
        kind,
        layer("user.yaml", {"deny": ["a"]}),
        layer("dsh.yaml", {"deny": value}, lines={"deny": 4}),
    )
    assert message.startswith("dsh.yaml:4: plugins.p.deny: a list is wanted")


@BOTH
def test_an_untrusted_file_gives_marked_fields_only_and_is_told_of_the_others(
    kind: type[Any],
) -> None:
    mine = {"mode": "allow", "deny": ["Bash"], "timeout_seconds": 2}
    theirs = {"mode": "off", "deny": ["Edit"], "timeout_seconds": 9, "limits": {"memory": 7}}
    lines = {"mode": 7, "limits": 8, "timeout_seconds": 9}
    layers = placed(
        "plugins.p", [layer("user.yaml", mine), layer("x", theirs, trusted=False, lines=lines)]
    )
    kept, notes = admit(kind, "p", layers)
    assert merge(kind, kept) == {"mode": "allow", "deny": ["Bash", "Edit"], "timeout_seconds": 2}
    said = "is ignored until you trust this folder (dsh trust)"
    assert sorted(notes) == [
        f"x:7: plugins.p.mode {said}",
        f"x:8: plugins.p.limits {said}",
        f"x:9: plugins.p.timeout_seconds {said}",
    ]


@BOTH
def test_a_mistake_is_not_looked_for_in_what_is_ignored(kind: type[Any]) -> None:
    message = refused(
        kind,
        layer("user.yaml", {"timeout_seconds": "soon"}),
        layer("dsh.yaml", {"timeout_seconds": 3}, trusted=False),
    )
    assert message.startswith("user.yaml: plugins.p.timeout_seconds: ")


@BOTH
def test_an_unknown_key_of_an_untrusted_file_is_still_a_mistake(kind: type[Any]) -> None:
    message = refused(kind, layer("dsh.yaml", {"dney": []}, trusted=False))
    assert "Did you mean 'deny'?" in message


@BOTH
def test_layers_that_switch_off_give_no_settings(kind: type[Any]) -> None:
    settings = made(kind, layer("user", False), layer("project", {"version": "2"}))
    assert settings.version == "2"


@BOTH
def test_an_unknown_key_names_place_nearest_key_and_all_others(kind: type[Any]) -> None:
    message = refused(kind, layer("dsh.yaml", {"timout_seconds": 3}, lines={"timout_seconds": 9}))
    assert message.splitlines()[0] == (
        "dsh.yaml:9: plugins.p.timout_seconds: there is no such setting 'timout_seconds'"
    )
    assert "Did you mean 'timeout_seconds'? Settings of p: deny, mode, " in message


@BOTH
def test_every_violation_is_listed_with_the_place_it_was_written(kind: type[Any]) -> None:
    message = refused(
        kind,
        layer("user.yaml", {"timeout_seconds": "soon"}, lines={"": 1, "timeout_seconds": 2}),
        layer(
            "dsh.yaml",
            {"limits": {"memory": "much"}, "tags": ["a", 5]},
            lines={"": 10, "limits": 11, "limits.memory": 12, "tags": 13},
        ),
    )
    lines = message.splitlines()
    assert lines[0].startswith("user.yaml:2: plugins.p.timeout_seconds: ")
    assert lines[1].startswith("dsh.yaml:13: plugins.p.tags.1: ")
    assert lines[2].startswith("dsh.yaml:12: plugins.p.limits.memory: ")
    assert lines[-1].strip() == "`dsh plugins info p` lists its settings."


@BOTH
def test_without_lines_the_source_and_the_key_path_are_named(kind: type[Any]) -> None:
    message = refused(kind, layer("environment", {"timeout_seconds": "soon"}))
    assert message.startswith("environment: plugins.p.timeout_seconds: ")


def test_an_agents_override_is_named_by_its_own_key_path() -> None:
    message = refused(
        Data,
        layer("dsh.yaml", {"timeout_seconds": "x"}, lines={"timeout_seconds": 21}),
        prefix="agents.coder.plugins.p",
    )
    assert message.startswith("dsh.yaml:21: agents.coder.plugins.p.timeout_seconds: ")


def test_unknown_keys_deeper_down_are_refused_too() -> None:
    message = refused(Data, layer("dsh.yaml", {"limits": {"memry": 1}}, lines={"limits": 3}))
    assert message.startswith("dsh.yaml:3: plugins.p.limits.memry: ")


@BOTH
def test_a_number_stands_as_it_was_written_where_text_is_wanted(kind: type[Any]) -> None:
    settings = made(
        kind,
        layer(
            "dsh.yaml",
            {"version": 1.1, "limits": {"name": 7}, "env": {"A": 1}},
            written={"version": "1.10", "limits.name": "007", "env.A": "0x1"},
        ),
    )
    assert (settings.version, settings.limits.name, settings.env) == ("1.10", "007", {"A": "0x1"})


@BOTH
def test_a_number_that_another_layer_wrote_is_not_taken_for_the_strongest(kind: type[Any]) -> None:
    message = refused(
        kind,
        layer("user.yaml", {"version": 1.1}, written={"version": "1.10"}),
        layer("dsh.yaml", {"version": ["x"]}),
    )
    assert message.startswith("dsh.yaml: plugins.p.version: ")


def test_what_a_variable_held_is_never_shown() -> None:
    @dataclasses.dataclass(frozen=True)
    class Strict:
        token: str = ""
        count: int = 1

        def __post_init__(self) -> None:
            if self.token == "hunter2":
                raise ValueError(f"bad token {self.token}")

    whole = refused(
        Strict, layer("dsh.yaml", {"token": "hunter2"}, variables={"token": "${TOKEN}"})
    )
    assert whole.startswith("plugins.p: it does not fit (written as ${TOKEN})")
    number = refused(
        Strict, layer("dsh.yaml", {"count": "hunter2"}, variables={"count": "${COUNT}"})
    )
    assert "hunter2" not in number
    assert "(written as ${COUNT})" in number


# ------------------------------------------------------------------------ Settings classes


def test_a_dataclass_with_defaults_needs_no_validation() -> None:
    assert made(Data) == Data()


def test_a_missing_setting_is_named() -> None:
    @dataclasses.dataclass(frozen=True)
    class Needs:
        key: str

    class NeedsModel(pydantic.BaseModel):
        key: str

    for kind in (Needs, NeedsModel):
        assert refused(kind).startswith("plugins.p.key: Field required")


def test_what_a_settings_class_raises_is_a_mistake_in_the_settings() -> None:
    @dataclasses.dataclass(frozen=True)
    class Checks:
        share: float = 0.5

        def __post_init__(self) -> None:
            if self.share > 1:
                raise ValueError("share must be at most 1")

    message = refused(Checks, layer("dsh.yaml", {"share": 3}, lines={"": 2}))
    assert "share must be at most 1" in message

    @dataclasses.dataclass(frozen=True)
    class Breaks:
        def __post_init__(self) -> None:
            raise KeyError("bug")

    assert "the settings cannot be made: KeyError: 'bug'" in refused(Breaks)


def test_another_kind_of_class_is_refused() -> None:
    class Plain:
        pass

    with pytest.raises(TypeError, match="Settings must be a dataclass or a pydantic model"):
        field_names(Plain)


@BOTH
def test_marks_are_read_from_annotations(kind: type[Any]) -> None:
    assert marked(kind, ADD) == {"deny"}
    assert marked(kind, TRUSTED_ONLY) == {"mode"}
    assert marked(kind, UNTRUSTED_OK) == {"deny"}
    assert (repr(ADD), repr(TRUSTED_ONLY)) == ("ADD", "TRUSTED_ONLY")


def test_fields_that_are_computed_are_no_settings() -> None:
    @dataclasses.dataclass
    class Computes:
        a: int = 1
        b: int = dataclasses.field(init=False, default=2)

    assert field_names(Computes) == ("a",)


@BOTH
def test_the_schema_lists_the_fields_and_refuses_others(kind: type[Any]) -> None:
    schema: Mapping[str, Any] = json_schema(kind)
    assert set(schema["properties"]) == set(field_names(kind))
    assert schema["additionalProperties"] is False


def test_a_plugin_without_settings_has_an_empty_schema() -> None:
    assert json_schema(None) == {"type": "object", "additionalProperties": False}


def test_a_mistake_in_a_list_that_adds_up_names_the_layer_it_stands_in() -> None:
    layers = placed(
        "plugins.p",
        (
            Layer("user.yaml", {"deny": ["a", "b"]}, lines={"deny.0": 2, "deny.1": 3}),
            Layer("dsh.yaml", {"deny": ["b", 7]}, lines={"deny.0": 8, "deny.1": 9}),
        ),
    )

    with pytest.raises(ConfigError, match=r"dsh\.yaml:9: plugins\.p\.deny\.1"):
        build(Data, "p", merge(Data, layers), layers)

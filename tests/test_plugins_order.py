"""In which order plugins are asked: as named, first-party, by name, built-ins; bent by wishes."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.builtin import BUILTIN_PLUGINS
from dsh_core.config.model import HarnessConfig, Layer
from dsh_core.errors import ConfigError
from dsh_core.harness import Harness
from dsh_core.plugins.discovery import Found
from dsh_core.plugins.order import CycleError, asked_last, asked_order, bent, wishes
from dsh_core.plugins.states import plugin_order

BUILTIN = list(BUILTIN_PLUGINS)


def found(*names: str) -> dict[str, Found]:
    return {name: Found(name, f"dsh-{name}", "1", dict, (f"dsh-{name}",)) for name in names}


def test_named_ones_first_then_first_party_ones_then_others_by_name_then_built_ins() -> None:
    installed = ["zebra", "files", "ant", "shell", "permission", "named", *BUILTIN]
    order = asked_order(["named", "absent", "retry"], installed, BUILTIN)
    assert order == [
        *["named", "absent", "permission", "files", "shell", "ant", "zebra"],
        *BUILTIN,
    ]


def test_plugins_given_by_code_are_asked_first_even_when_they_replace_an_installed_one() -> None:
    order = plugin_order(HarnessConfig(), found("files", "shell"), ["mine", "shell"])
    assert order == ["mine", "shell", "files", *BUILTIN]


def test_a_name_that_only_the_environment_mentions_keeps_its_place() -> None:
    plugins = {
        "shell": (Layer("environment", {"timeout": 1}, settings_only=True),),
        "zebra": (Layer("user.yaml", {}), Layer("-s", {"x": 1}, settings_only=True)),
    }
    order = plugin_order(HarnessConfig(plugins=plugins), found("permission", "shell", "zebra"), [])
    assert order == ["zebra", "permission", "shell", *BUILTIN]


def test_who_has_to_come_earlier_moves_just_ahead_and_all_others_keep_their_places() -> None:
    order = ["permission", "files", "shell", "zebra"]
    assert bent(order, [("zebra", "permission")]) == ["zebra", "permission", "files", "shell"]
    assert bent(order, [("shell", "files")]) == ["permission", "shell", "files", "zebra"]
    assert bent(order, [("permission", "zebra")]) == order


def test_wishes_reach_built_ins_too() -> None:
    order = ["a", "b", "limits", "retry"]
    assert bent(order, [("retry", "b"), ("limits", "a")]) == ["limits", "a", "retry", "b"]


def test_absent_names_and_oneself_are_ignored() -> None:
    assert bent(["a", "b"], [("b", "ghost"), ("ghost", "a"), ("b", "b")]) == ["a", "b"]


def test_a_cycle_is_an_error_that_names_it_and_nobody_else() -> None:
    order = ["a", "b", "c", "d", "e"]
    with pytest.raises(CycleError) as caught:
        bent(order, [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "a")])
    assert set(caught.value.names) == {"a", "b", "c"}
    message = str(caught.value)
    assert "plugins that must each come before the other: " in message
    path = caught.value.message.rpartition(": ")[2].split(" → ")
    assert path[0] == path[-1]
    assert {("a", "b"), ("b", "c"), ("c", "a")} == set(pairwise(path))
    assert "plugins.NAME: false" in message


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12),
)
def test_every_wish_is_met_or_there_is_a_cycle(numbers: list[tuple[int, int]]) -> None:
    order = [str(number) for number in range(8)]
    pairs = [(str(first), str(second)) for first, second in numbers]
    try:
        result = bent(order, pairs)
    except CycleError as error:
        for first, second in zip(error.names, (*error.names[1:], error.names[0]), strict=True):
            assert (first, second) in pairs
        return
    assert sorted(result) == order
    for first, second in pairs:
        assert first == second or result.index(first) < result.index(second)
    assert bent(result, pairs) == result


def test_before_and_after_become_pairs() -> None:
    plugin = SimpleNamespace(before=("a", "b"), after=["c"])
    assert wishes("x", plugin) == [("x", "a"), ("x", "b"), ("c", "x")]
    assert wishes("x", SimpleNamespace()) == []


@pytest.mark.parametrize(
    "value", ["permission", 5, (1,), lambda: None], ids=["text", "number", "numbers", "function"]
)
def test_a_wish_that_is_no_tuple_of_names_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="`before` of plugin 'x' is no tuple") as caught:
        wishes("x", SimpleNamespace(before=value))
    assert 'before = ("other_plugin",)' in str(caught.value)


def test_a_late_plugin_is_last_among_plugins_and_a_known_one_keeps_its_place() -> None:
    assert asked_last(["a", "b", "retry"], "late", ["retry"]) == ["a", "b", "late", "retry"]
    assert asked_last(["a", "b", "retry"], "a", ["retry"]) == ["a", "b", "retry"]
    assert asked_last(["retry", "a"], "late", ["retry"]) == ["retry", "a", "late"]


def test_a_wish_that_names_nobody_is_noted_with_the_nearest_name() -> None:
    class Early:
        before = ("limts", "something_else", "shell")
        after = ("retri",)

    harness = Harness(HarnessConfig(autoload=False), plugins={"early": Early()})
    harness.plugins.load()
    assert harness.plugins.notes == [
        "`before` of plugin 'early': there is no plugin 'limts'; did you mean 'limits'?",
        "`after` of plugin 'early': there is no plugin 'retri'; did you mean 'retry'?",
    ]

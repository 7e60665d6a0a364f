"""A record is a dataclass to everyone who looks; only how it is made differs."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

import pytest

from dsh_core.record import record

MARK: list[str] = []


@record()
class Place:
    """A place."""

    kind: ClassVar[str] = "place"
    name: str
    tags: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    cache: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Twin:
    """What `Place` is, made by `dataclasses`."""

    kind: ClassVar[str] = "place"
    name: str
    tags: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    cache: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)


@record(frozen=False)
class Count:
    value: int = 0


@record(eq=False)
class Token:
    name: str


@record()
class Keyed:
    first: int
    second: int = field(kw_only=True)
    third: int = field(default=3, kw_only=True)


@record()
class Measured:
    width: int
    area: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "area", self.width**2)


@record()
class Town(Place):
    people: int = 0


@record()
class Shouting:
    name: str

    def __repr__(self) -> str:
        return self.name.upper()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shouting) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


# ------------------------------------------------------------------------------ as dataclasses


def test_a_record_looks_like_the_dataclass_of_the_same_fields() -> None:
    mine, its = (inspect.signature(cls).parameters.values() for cls in (Place, Twin))
    assert [(p.name, p.kind, p.annotation) for p in mine] == [
        (p.name, p.kind, p.annotation) for p in its
    ]
    assert Place.__match_args__ == Twin.__match_args__
    assert [f.name for f in dataclasses.fields(Place)] == [f.name for f in dataclasses.fields(Twin)]
    assert repr(Place("here", ("a",))) == repr(Twin("here", ("a",))).replace("Twin", "Place")
    assert dataclasses.asdict(Place("here")) == dataclasses.asdict(Twin("here"))
    assert not hasattr(Place("here"), "__dict__")


def test_fields_are_given_by_place_and_by_name_and_have_their_defaults() -> None:
    assert Place("here", notes=["x"]) == Place("here", (), ["x"])
    assert Keyed(1, second=2).third == 3


@pytest.mark.parametrize("arguments", [(), ("a", (), [], "too many")])
def test_too_few_and_too_many_arguments_are_refused_with_the_names(arguments: Any) -> None:
    with pytest.raises(TypeError, match=r"Place\.__init__\(\)"):
        Place(*arguments)


def test_a_keyword_only_field_cannot_be_given_by_place() -> None:
    with pytest.raises(TypeError, match="positional"):
        Keyed(1, 2)  # type: ignore[call-arg, misc]


def test_a_default_factory_is_asked_for_each_record() -> None:
    first, second = Place("a"), Place("a")

    assert first.notes is not second.notes
    assert first.cache is not second.cache


def test_match_replace_copy_and_pickle_work() -> None:
    place = Place("here", ("a",))

    match dataclasses.replace(place, name="there"):
        case Place(name, tags):
            assert (name, tags) == ("there", ("a",))
    assert copy.copy(place) == copy.deepcopy(place) == pickle.loads(pickle.dumps(place)) == place


def test_post_init_runs_when_the_fields_are_set() -> None:
    assert Measured(3).area == 9


# ------------------------------------------------------------------------------- frozen, equal


@pytest.mark.parametrize("name", ["name", "tags", "cache"])
def test_a_record_cannot_be_changed(name: str) -> None:
    place = Place("here")

    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(place, name, "x")
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(place, name)
    with pytest.raises(AttributeError):
        place.unknown = 1  # type: ignore[attr-defined]


def test_a_record_that_is_not_frozen_can_be_changed_and_has_no_hash() -> None:
    count = Count()
    count.value = 2

    assert count == Count(2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(count)


def test_equality_compares_the_fields_of_the_same_class_only() -> None:
    assert Place("a") == Place("a") != Place("b")
    assert Town("a") != Place("a")
    assert Place("a") != Twin("a")
    assert hash(Keyed(1, second=2)) == hash(Keyed(1, second=2))


def test_fields_without_comparison_do_not_count() -> None:
    place = Place("a")
    place.cache["x"] = 1

    assert place == Place("a")


def test_records_without_equality_are_each_their_own() -> None:
    assert Token("a") != Token("a")
    assert len({Token("a"), Token("a")}) == 2


def test_a_record_that_contains_itself_can_be_printed() -> None:
    place = Place("a", notes=MARK)
    MARK.append(place)  # type: ignore[arg-type]

    assert repr(place) == "Place(name='a', tags=(), notes=[...])"


# --------------------------------------------------------------------------------- inheritance


def test_a_record_extends_a_record() -> None:
    town = Town("a", people=3)

    assert (town.name, town.people) == ("a", 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        town.name = "b"  # type: ignore[misc]


def test_a_frozen_dataclass_extends_a_record() -> None:
    @dataclass(frozen=True)
    class City(Place):
        mayor: str = "nobody"

    assert City("a", mayor="b") == City("a", mayor="b")


def test_a_changeable_record_cannot_extend_a_frozen_one() -> None:
    with pytest.raises(TypeError, match="non-frozen"):

        @record(frozen=False)
        class Village(Place):
            pass


def test_methods_that_a_class_brings_stay_its_own() -> None:
    assert repr(Shouting("a")) == "A"
    assert Shouting("a") == Shouting("A")
    assert len({Shouting("a"), Shouting("A")}) == 1


# ------------------------------------------------------------------------------------ mistakes


def test_a_field_without_default_after_one_with_is_refused() -> None:
    with pytest.raises(TypeError, match="second has no default"):

        @record()
        class Wrong:
            first: int = 1
            second: int  # type: ignore[misc]


def test_an_init_variable_is_refused() -> None:
    with pytest.raises(TypeError, match="InitVar"):

        @record()
        class Wrong:
            seed: InitVar[int]


def test_a_record_with_as_many_fields_as_another_compiles_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What makes the import of the core quick."""

    @record()
    class One:
        left: int
        right: int

    monkeypatch.setattr("builtins.exec", None)
    monkeypatch.setattr("builtins.compile", None)

    @record()
    class Other:
        up: int
        down: int = 2

    assert (Other(up=1).down, One(3, 4).right) == (2, 4)

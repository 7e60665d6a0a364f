"""The logic alone."""

import pytest

from dsh_hello.greeting import Greeted, greet


def test_a_name_is_greeted() -> None:
    assert greet("Good day", "  Ada \n Lovelace ") == "Good day, Ada Lovelace!"


@pytest.mark.parametrize("name", ["", " ", "42", "?!"])
def test_what_has_no_letters_is_no_name(name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        greet("Good day", name)


def test_a_name_counts_once() -> None:
    greeted = Greeted()
    assert greeted.describe() == "Nobody yet."
    for name in ("Ada", "Grace", "Ada"):
        greeted.add(name)

    assert (len(greeted), greeted.describe()) == (2, "Ada, Grace")

import pytest
from intervals import Interval, free, merged, total_length


def test_intervals_that_meet_become_one():
    assert merged([Interval(1, 3), Interval(3, 5)]) == [Interval(1, 5)]


def test_intervals_apart_stay_apart():
    assert merged([Interval(4, 5), Interval(1, 2)]) == [Interval(1, 2), Interval(4, 5)]


def test_an_interval_inside_another_adds_nothing():
    assert merged([Interval(1, 10), Interval(2, 4)]) == [Interval(1, 10)]


def test_ground_covered_twice_counts_once():
    assert total_length([Interval(0, 8), Interval(2, 4), Interval(6, 9)]) == 9


def test_gaps_are_what_is_left():
    taken = [Interval(9, 17), Interval(10, 12)]

    assert free(taken, Interval(8, 20)) == [Interval(8, 9), Interval(17, 20)]


def test_an_empty_interval_is_refused():
    with pytest.raises(ValueError, match="needs a length"):
        Interval(3, 3)

"""What a list of sessions says: folded from the log, in one go or in pieces."""

from __future__ import annotations

import pytest

from dsh_core import Event, EventData, Image, SessionHeader, SummaryFold, Text, Usage, summarise
from dsh_core.events import Completed, MessageTrigger, TurnEnd, TurnStart, UsageEvent, UserMessage
from dsh_core.session.summary import TITLE_CHARACTERS, title_of

HEADER = SessionHeader("one", 1.0)


def turn(number: int, said: str) -> list[EventData]:
    return [
        TurnStart(number, MessageTrigger()),
        UserMessage((Text(said),)),
        UsageEvent(number, 1, Usage(10, 2, 3)),
        TurnEnd(number, Completed()),
    ]


def events(*data: EventData) -> list[Event]:
    return [Event(seq, 10.0 + seq, one) for seq, one in enumerate(data)]


def test_a_summary_counts_turns_and_tokens_and_takes_the_first_message_as_title() -> None:
    log = events(*turn(1, "First of all."), *turn(2, "Then."))
    summary = summarise(HEADER, log)

    assert (summary.title, summary.turns) == ("First of all.", 2)
    assert summary.usage == Usage(20, 4, 6)
    assert (summary.header, summary.updated_at, summary.problem) == (HEADER, 17.0, None)


def test_an_empty_session_was_updated_when_it_was_made() -> None:
    assert summarise(HEADER, []).updated_at == 1.0


def test_a_fold_goes_on_where_another_stopped() -> None:
    log = events(*turn(1, "First."), *turn(2, "Then."))
    first = SummaryFold()
    for event in log[:5]:
        first.feed(event)
    second = SummaryFold(first.title, first.turns, first.usage)
    for event in log[5:]:
        second.feed(event)

    assert second.summary(HEADER, 17.0) == summarise(HEADER, log)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\n \n  Fix\tthis   now \nand that", "Fix this now"),
        ("   \n", None),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * (TITLE_CHARACTERS - 1) + "…"),
    ],
)
def test_a_title_is_one_line_that_says_something(text: str, title: str | None) -> None:
    assert title_of(text) == title


def test_the_first_message_that_says_something_gives_the_title() -> None:
    picture = UserMessage((Image("image/png", "aGk="),))
    log = events(TurnStart(1, MessageTrigger()), picture, UserMessage((Text("What is this?"),)))

    assert summarise(HEADER, log).title == "What is this?"

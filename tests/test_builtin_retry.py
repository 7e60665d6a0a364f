"""Failed requests are tried again where waiting helps, and no longer than the provider wishes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offline import offline

from dsh_core.builtin.retry import RETRYABLE, RetryRequests
from dsh_core.config.model import HarnessConfig, Layer
from dsh_core.errors import ConfigError, LlmFailure
from dsh_core.events import LlmRetry
from dsh_core.harness import Harness

Settings = RetryRequests.Settings


def plugin(**settings: Any) -> RetryRequests:
    return RetryRequests(Settings(**settings))


def failure(code: str = "SERVER", retry_after_seconds: float | None = None) -> LlmFailure:
    return LlmFailure(code, "no", retry_after_seconds=retry_after_seconds)


def failing(code: str = "SERVER", **fields: Any) -> dict[str, Any]:
    """A scripted reply that fails."""
    return {"fail": {"code": code, **fields}}


def impatient(**settings: Any) -> HarnessConfig:
    values = {"initial_delay_seconds": 0, "max_delay_seconds": 0, **settings}
    return HarnessConfig(autoload=False, plugins={"retry": (Layer("dsh.yaml", values),)})


# ---------------------------------------------------------------------------------- delays


def test_waits_double_up_to_the_longest() -> None:
    retry = plugin(jitter=0)
    assert [retry.delay(failure(), attempt) for attempt in range(1, 7)] == [
        *[0.5, 1.0, 2.0, 4.0, 8.0],
        None,
    ]
    assert plugin(jitter=0, max_retries=99).delay(failure(), 50) == 10.0


@given(st.integers(1, 5), st.floats(0, 1))
def test_jitter_varies_a_wait_by_its_share_and_never_beyond_the_longest(
    attempt: int, jitter: float
) -> None:
    own = 0.5 * 2 ** (attempt - 1)
    wait = plugin(jitter=jitter).delay(failure(), attempt)
    assert wait is not None
    assert own * (1 - jitter) - 1e-9 <= wait <= min(own * (1 + jitter), 10.0) + 1e-9


def test_the_providers_wish_counts_instead() -> None:
    retry = plugin()
    assert retry.delay(failure("RATE_LIMIT", 0.0), 1) == 0.0
    assert retry.delay(failure("RATE_LIMIT", 42.5), 3) == 42.5
    assert retry.delay(failure("RATE_LIMIT", -3.0), 1) == 0.0


def test_a_wish_beyond_patience_ends_the_turn_at_once() -> None:
    assert plugin().delay(failure("RATE_LIMIT", 60.1), 1) is None
    assert plugin(max_retry_after_seconds=0).delay(failure("RATE_LIMIT", 1.0), 1) is None


@pytest.mark.parametrize(
    "code",
    [
        *["AUTH", "QUOTA", "INVALID_REQUEST", "CONTEXT_WINDOW_EXCEEDED", "NO_ADAPTER"],
        *["CONTENT_FILTER", "MALFORMED_RESPONSE", "ABORTED", "UNKNOWN"],
    ],
)
def test_what_waiting_does_not_help_is_not_tried_again(code: str) -> None:
    assert plugin().delay(failure(code, 1.0), 1) is None


@pytest.mark.parametrize("code", RETRYABLE)
def test_what_passes_by_itself_is_tried_again(code: str) -> None:
    assert plugin().delay(failure(code), 1) is not None


def test_the_codes_can_be_chosen_and_retrying_switched_off() -> None:
    retry = plugin(codes=("MALFORMED_RESPONSE",))
    assert retry.delay(failure("MALFORMED_RESPONSE"), 1) is not None
    assert retry.delay(failure("SERVER"), 1) is None
    assert plugin(max_retries=0).delay(failure(), 1) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"jitter": 1.5}, "jitter is a share: between 0 and 1"),
        ({"jitter": -0.1}, "jitter is a share: between 0 and 1"),
        ({"max_retries": -1}, "max_retries must not be negative"),
        ({"initial_delay_seconds": -1}, "initial_delay_seconds must not be negative"),
        ({"max_retries": "many"}, "max_retries: Input should be a valid integer"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Any, message: str) -> None:
    config = HarnessConfig(plugins={"retry": (Layer("dsh.yaml", settings),)}, autoload=False)
    with pytest.raises(ConfigError, match=message):
        Harness(config).plugins.load()


# ---------------------------------------------------------------------------------- turns


async def test_a_turn_survives_failures_and_its_log_says_so() -> None:
    async with offline(failing(), failing("TIMEOUT"), "at last", config=impatient()) as stage:
        result = await stage.agent.run("go")
        assert (result.text, result.reason.type) == ("at last", "completed")
        waits = [(event.attempt, event.code) for event in stage.logged(LlmRetry)]
        assert waits == [(1, "SERVER"), (2, "TIMEOUT")]


async def test_after_the_last_retry_the_turn_ends_with_the_failure() -> None:
    replies = [failing()] * 3
    async with offline(*replies, config=impatient(max_retries=2)) as stage:
        result = await stage.agent.run("go")
        assert result.reason.type == "error"
        assert len(stage.requests) == 3


async def test_without_the_plugin_nothing_is_tried_again() -> None:
    config = HarnessConfig(autoload=False, plugins={"retry": (Layer("dsh.yaml", False),)})
    async with offline(failing(), "never", config=config) as stage:
        assert (await stage.agent.run("go")).reason.type == "error"
        assert len(stage.requests) == 1

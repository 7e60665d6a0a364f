"""Built-in plugin `retry`: tries failed requests again, with back-off, jitter and Retry-After."""

from __future__ import annotations

import random

from dsh_core.errors import LlmFailure
from dsh_core.marks import hookimpl
from dsh_core.record import record
from dsh_core.request import Retry

RETRYABLE = ("EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT")


class RetryRequests:
    """Answers `agent_request_error` for failures that pass by themselves."""

    @record()
    class Settings:
        """When and how long to wait."""

        max_retries: int = 5
        """Attempts after the first. Five waits span some 15 s, a usual provider hiccup."""
        initial_delay_seconds: float = 0.5
        """Before the first retry; doubled each time."""
        max_delay_seconds: float = 10.0
        """Longest own wait."""
        max_retry_after_seconds: float = 60.0
        """Longest wait a provider may ask for; beyond it the turn ends with the failure at once."""
        jitter: float = 0.1
        """Share by which a wait varies, so that many agents do not come back together."""
        codes: tuple[str, ...] = RETRYABLE
        """Failure codes that are tried again."""

        def __post_init__(self) -> None:
            for name in (
                "max_retries",
                "initial_delay_seconds",
                "max_delay_seconds",
                "max_retry_after_seconds",
            ):
                if getattr(self, name) < 0:
                    raise ValueError(f"{name} must not be negative")
            if not 0 <= self.jitter <= 1:
                raise ValueError("jitter is a share: between 0 and 1")

    def __init__(self, settings: Settings):
        self.settings = settings

    @hookimpl
    async def agent_request_error(self, failure: LlmFailure, attempt: int) -> Retry | None:
        """Ask for a wait; None where waiting would not help."""
        delay = self.delay(failure, attempt)
        return None if delay is None else Retry(delay)

    def delay(self, failure: LlmFailure, attempt: int) -> float | None:
        """Return the seconds to wait after the failed attempt, or None to give up."""
        settings = self.settings
        if failure.code not in settings.codes or attempt > settings.max_retries:
            return None
        wished = failure.retry_after_seconds
        if wished is not None:
            return max(0.0, wished) if wished <= settings.max_retry_after_seconds else None
        own = settings.initial_delay_seconds * 2.0 ** min(attempt - 1, 64)
        spread = 1 + random.uniform(-settings.jitter, settings.jitter)  # noqa: S311 - no secret
        return min(min(own, settings.max_delay_seconds) * spread, settings.max_delay_seconds)

"""Short names for the test kit's offline harness, which most tests here run."""

from dsh_core.testing.offline import (
    HANGS_SECONDS,
    NAMED_ONLY,
    OfflineHarness,
    calling,
    request_text,
)
from dsh_core.testing.offline import offline_harness as offline

__all__ = ["HANGS_SECONDS", "NAMED_ONLY", "OfflineHarness", "calling", "offline", "request_text"]

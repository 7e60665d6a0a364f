"""A pytest plugin: the shell tools' own tests, with every command in a sandbox.

`-p through_sandbox`, and the backend's name in DSH_TEST_BACKEND.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import confined
import pytest

from dsh_sandbox.executor import SandboxExecutor
from dsh_sandbox.settings import Settings
from dsh_sandbox.workshop import Workshop
from dsh_sandbox.zone import zone_of

NUMBERED_INSIDE = "a namespace has process numbers of its own"
LEFT_OUT = {
    "test_at_the_timeout_the_whole_group_goes_and_the_output_stays": NUMBERED_INSIDE,
    "test_a_cancelled_call_leaves_nothing_and_stays_cancelled": NUMBERED_INSIDE,
}
"""Tests that look for a process by the number it has inside, and why they cannot. Under bubblewrap
only; what they are about is tested in `test_executor`."""


def pytest_configure(config: pytest.Config) -> None:
    workshop = Workshop()
    backend = confined.backend_named(os.environ["DSH_TEST_BACKEND"])
    assert backend is not None

    def wrap(inner: Any, cwd: Path) -> SandboxExecutor:
        zone = zone_of(cwd, Settings())
        return SandboxExecutor(inner, backend, zone, workshop, lambda outcome: None)

    config.wrap_executor = wrap  # type: ignore[attr-defined]
    config.add_cleanup(workshop.close)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ["DSH_TEST_BACKEND"] != "bubblewrap":
        return
    for item in items:
        reason = LEFT_OUT.get(item.name.partition("[")[0])
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))

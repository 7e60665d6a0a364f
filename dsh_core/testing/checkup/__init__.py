"""What an author got wrong, found before a user meets it: `dsh plugins check`.

Static checks read the plugin, its metadata and its import time. Then two agents use the plugin at
the same time, with the offline model, and the plugin is taken out again.
"""

from __future__ import annotations

import asyncio

from dsh_core.config.model import HarnessConfig
from dsh_core.testing.checkup.finding import Finding
from dsh_core.testing.checkup.packaging import packaging_findings
from dsh_core.testing.checkup.reading import reading_findings
from dsh_core.testing.checkup.running import running_findings
from dsh_core.testing.checkup.subject import Subject, subjects

ATTEMPTS = 3
"""What depends on time counts only when it happens every time: machines are busy now and then."""


def check(subject: Subject, config: HarnessConfig) -> list[Finding]:
    """Return what is wrong with a plugin; empty = nothing was found.

    Args:
        subject: The plugin.
        config: Where its settings come from.
    """
    return [*packaging_findings(subject), *check_code(subject, config)]


def check_code(subject: Subject, config: HarnessConfig) -> list[Finding]:
    """Like `check`, without metadata and import time."""
    findings = list(reading_findings(subject, config))
    if any(finding.is_fatal for finding in findings):
        return findings  # it would not start
    return [*findings, *_always(subject, config)]


def _always(subject: Subject, config: HarnessConfig) -> list[Finding]:
    """Run the plugin; again where something took long, keeping what took long each time."""
    findings = asyncio.run(running_findings(subject, config))
    for _ in range(ATTEMPTS - 1):
        timed = [finding for finding in findings if finding.is_timed]
        if not timed:
            break
        again = {one.message for one in asyncio.run(running_findings(subject, config))}
        findings = [one for one in findings if not one.is_timed or one.message in again]
    return findings


__all__ = ["Finding", "Subject", "check", "check_code", "packaging_findings", "subjects"]

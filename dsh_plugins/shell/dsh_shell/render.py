"""What the model reads of a command: output first, then the facts, always in the same order."""

from __future__ import annotations

from typing import Any

from dsh_shell.capture import Excerpt
from dsh_shell.jobs import Job
from dsh_shell.run import Outcome

_SHOWN_SURVIVORS = 5


def command_text(
    stdout: Excerpt,
    stderr: Excerpt,
    outcome: Outcome,
    *,
    timeout_seconds: float,
    notice: str | None,
) -> str:
    """Return output, notices, `[timed out …]`, and last how the shell ended if not with 0."""
    return _lines(
        output_text(stdout, stderr) or "(no output)",
        notice,
        _survivors(outcome),
        f"[timed out after {timeout_seconds:g} s]" if outcome.timed_out else None,
        _ending(outcome),
    )


def output_text(stdout: Excerpt, stderr: Excerpt) -> str:
    """Return standard output, then a section with standard error, final newlines included.

    Returns "" where both are empty or blank lines only.
    """
    output = stdout.text if stdout.text.strip("\n") else ""
    errors = stderr.text if stderr.text.strip("\n") else ""
    return _lines(output, f"[stderr]\n{errors}" if errors else None)


def job_text(stdout: Excerpt, stderr: Excerpt, job: Job) -> str:
    """Return what a job wrote since it was last read, and its status."""
    return _lines(
        output_text(stdout, stderr) or "(no new output)",
        _survivors(job.outcome) if job.outcome is not None else None,
        job.status_line,
    )


def facts(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome for front ends."""
    return {
        "timed_out": outcome.timed_out,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "duration_seconds": round(outcome.duration_seconds, 3),
        "survivors": [process.pid for process in outcome.survivors],
    }


def _survivors(outcome: Outcome) -> str | None:
    if not outcome.survivors:
        return None
    shown = [f"{process.name} (pid {process.pid})" for process in outcome.survivors]
    if len(shown) > _SHOWN_SURVIVORS:
        shown[_SHOWN_SURVIVORS:] = [f"{len(shown) - _SHOWN_SURVIVORS} more"]
    return f"[still running in the background, until the session ends: {', '.join(shown)}]"


def _ending(outcome: Outcome) -> str | None:
    if outcome.returncode is None:
        return "[could not be killed]"
    if outcome.signal is not None:
        return f"[killed by signal: {outcome.signal}]"
    return f"[exit code: {outcome.exit_code}]" if outcome.exit_code else None


def _lines(*parts: str | None) -> str:
    """Put parts below each other; one that ends with a newline needs no other."""
    text = ""
    for part in parts:
        if part:
            text += f"\n{part}" if text and not text.endswith("\n") else part
    return text

"""What an agent's commands left running: its background jobs, and survivors of other commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from dsh_core import ToolError
from dsh_shell.run import Outcome, Run

_LABEL_LENGTH = 80


@dataclass(eq=False, slots=True)
class Job:
    """A command in the background.

    Args:
        id: `bash-N`, counted per agent, never given twice.
        label: What it is, in one line.
        run: The process; None until it has started.
        outcome: How it ended; None until then.
        kill_requested: Whether `bash_kill` asked for its end.
        is_reported: Whether the model knows, or will be told, that it ended.
        ended: Set with `outcome`.

    """

    id: str
    label: str
    run: Run | None = None
    outcome: Outcome | None = None
    kill_requested: bool = False
    is_reported: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def status(self) -> str:
        """running, stopping, completed (exit code 0), killed or failed."""
        if self.outcome is None:
            return "stopping" if self.kill_requested else "running"
        if self.kill_requested:
            return "killed"
        return "completed" if self.outcome.returncode == 0 else "failed"

    @property
    def status_line(self) -> str:
        """The status as the model reads it."""
        end = ""
        if self.outcome is not None and self.outcome.signal is not None:
            end = f", signal: {self.outcome.signal}"
        elif self.outcome is not None and self.outcome.exit_code is not None:
            end = f", exit code: {self.outcome.exit_code}"
        return f"[status: {self.status}{end}]"


class Jobs:
    """The jobs and survivors of one agent.

    Args:
        limit: Jobs that may be running or stopping at a time.
        grace_seconds: Between TERM and KILL.
        notify: Tells the agent that a job ended.

    """

    def __init__(self, *, limit: int, grace_seconds: float, notify: Callable[[str], None]):
        self._limit = limit
        self._grace_seconds = grace_seconds
        self._notify = notify
        self._jobs: dict[str, Job] = {}
        self._count = 0
        self._watchers: set[asyncio.Task[None]] = set()
        self._survivors: set[Run] = set()
        self._is_closed = False

    def reserve(self, command: str, description: str | None) -> Job:
        """Take a place for a job, before its process starts.

        Raises `ToolError` when all places are taken.
        """
        active = [job.id for job in self._jobs.values() if job.outcome is None]
        if len(active) >= self._limit:
            raise ToolError(
                f"{len(active)} background jobs are running already ({', '.join(active)}); "
                "end one with bash_kill first",
                code="TOO_MANY_JOBS",
            )
        self._count += 1
        job = Job(f"bash-{self._count}", _label(command, description))
        self._jobs[job.id] = job
        return job

    def give_up(self, job: Job) -> None:
        """Free the place of a job whose process could not be started."""
        del self._jobs[job.id]

    async def begin(self, job: Job, run: Run) -> None:
        """Follow a job's process to its end. When the agent ended meanwhile, so does the job."""
        job.run = run
        watcher = asyncio.create_task(self._watch(job, run))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        if self._is_closed:
            await run.stop(grace_seconds=0)

    def find(self, job_id: str) -> Job:
        """Return the job. Raises `ToolError` where the agent has none of that id."""
        job = self._jobs.get(job_id.strip())
        if job is None:
            known = ", ".join(self._jobs) or "none"
            raise ToolError(f"there is no job {job_id!r}; jobs: {known}", code="JOB_NOT_FOUND")
        return job

    async def kill(self, job: Job) -> None:
        """Ask for the end of a running job and wait for it.

        When the wait is cancelled the job ends all the same, and the agent is told.
        """
        assert job.run is not None
        job.kill_requested = True
        job.is_reported = True  # by the caller, unless it is cancelled
        try:
            await job.run.process.stop(grace_seconds=self._grace_seconds)
            await job.ended.wait()
        except asyncio.CancelledError:
            job.is_reported = False
            if job.outcome is not None:
                self._report(job)
            raise

    async def keep(self, run: Run) -> None:
        """Remember a finished command with survivors; forget those whose survivors are gone."""
        self._survivors.add(run)
        if self._is_closed:
            await run.stop(grace_seconds=0)
        for kept in self._survivors - {run}:
            if not await kept.process.survivors():
                self._survivors.discard(kept)

    async def close(self) -> None:
        """End all of it and wait until it ended. Nothing is reported any more."""
        self._is_closed = True
        runs = [*self._survivors]
        for job in self._jobs.values():
            job.is_reported = True
            if job.run is not None:
                runs.append(job.run)
        await asyncio.gather(*(run.stop(grace_seconds=self._grace_seconds) for run in runs))
        await asyncio.gather(*self._watchers)
        for run in runs:
            run.close()

    async def _watch(self, job: Job, run: Run) -> None:
        outcome = Outcome.unknown()
        try:
            outcome = await run.finish(timeout_seconds=None, grace_seconds=self._grace_seconds)
        finally:
            job.outcome = outcome
            job.ended.set()
        self._report(job)
        if outcome.survivors:
            await self.keep(run)

    def _report(self, job: Job) -> None:
        if job.is_reported:
            return
        job.is_reported = True
        self._notify(
            f"Background job {job.id} ended: {job.label}\n{job.status_line}\n"
            f'Read its output with bash_output(job_id="{job.id}").'
        )


def _label(command: str, description: str | None) -> str:
    line = " ".join((description or command).split())
    return line if len(line) <= _LABEL_LENGTH else f"{line[: _LABEL_LENGTH - 1]}…"

"""The tools `bash`, `bash_output` and `bash_kill`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_core import (
    AgentDisposedError,
    LocalExecutor,
    PluginSource,
    StashKey,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    hookspecs,
    tool,
)
from dsh_core.execution import Command, Executor, readable
from dsh_shell.capture import Capture
from dsh_shell.environment import ambient_environment, command_environment
from dsh_shell.jobs import Job, Jobs
from dsh_shell.render import command_text, facts, job_text
from dsh_shell.run import Run
from dsh_shell.settings import Settings
from dsh_shell.spill import Spill
from dsh_shell.workdir import working_directory

if TYPE_CHECKING:
    from dsh_core import Agent

JOBS = StashKey[Jobs]("shell.jobs")

_INLINE_MARGIN_BYTES = 16 * 1024
"""Room for the lines around the output: our own cut is the only one."""

_DESCRIPTION = """\
Run a command with {shell} and return what it prints.

Every call is a new shell in the working directory: `cd`, variables and functions do not carry \
over to the next call. Standard input is empty, so nothing can be asked. The result is standard \
output, then a section [stderr], then [exit code: N] where it is not 0. Of long output the middle \
is left out and the whole is saved to a file that the result names. The command is ended after \
{timeout:g} seconds; `timeout` sets another limit, at most {most:g}. What it leaves running with \
`&` goes on, unheard, until the session ends."""

_BACKGROUND_DESCRIPTION = """ For a server, or work that takes longer, use `run_in_background`: \
it returns a job id at once, `bash_output` reads the job's output, `bash_kill` ends it, and you \
are told when it ended."""


@dataclass(frozen=True, slots=True)
class _Started:
    """A run, where it runs, and what is to be said about that."""

    run: Run
    cwd: Path
    notice: str | None


class ShellTools:
    """The tools of one plugin instance, and the processes they started.

    Args:
        settings: Limits and habits.

    """

    def __init__(self, settings: Settings):
        self._settings = settings
        self._local = LocalExecutor()
        self._open: set[Jobs] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._holds_secret: Callable[[str], bool] = lambda value: False

    def build(self, holds_secret: Callable[[str], bool]) -> Sequence[Tool]:
        """Return the tools. `holds_secret` tells which values no command may get."""
        self._holds_secret = holds_secret
        settings = self._settings
        text = _DESCRIPTION.format(
            shell=settings.shell, timeout=self._timeout(None), most=settings.max_timeout_seconds
        )
        if not settings.enable_background:
            tools = [tool(name="bash", description=text)(self._bash_in_foreground)]
        else:
            bash = tool(name="bash", description=text + _BACKGROUND_DESCRIPTION)(self._bash)
            tools = [bash, self._bash_output, self._bash_kill]
        limit = 2 * settings.output_limit_bytes + _INLINE_MARGIN_BYTES
        return [replace(declared, inline_limit_bytes=limit) for declared in tools]

    def end_agent(self, agent: Agent) -> None:
        """Begin to end what the agent's commands left running; `close` waits for it."""
        jobs = agent.stash.get(JOBS, None)
        if jobs is not None:
            self._open.discard(jobs)
            closing = asyncio.create_task(jobs.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """End everything that runs, and wait until it ended."""
        await asyncio.gather(*(jobs.close() for jobs in self._open), *self._closing)
        self._open.clear()
        await self._local.close(grace_seconds=self._settings.grace_seconds)

    async def _bash(  # noqa: D417 - ctx is not the model's
        self,
        command: str,
        timeout: float | None = None,
        run_in_background: bool = False,
        description: str | None = None,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Run a command, in the foreground or as a job.

        Args:
            command: The command, as typed into a shell.
            timeout: Seconds after which it is ended. Does not apply in the background.
            run_in_background: Start it as a job and return at once.
            description: What it does, in five to ten words, for the person who watches.

        """
        if run_in_background:
            return await self._run_in_background(command, timeout, description, ctx)
        return await self._run_in_foreground(command, timeout, ctx)

    async def _bash_in_foreground(  # noqa: D417 - ctx is not the model's
        self,
        command: str,
        timeout: float | None = None,
        description: str | None = None,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Run a command.

        Args:
            command: The command, as typed into a shell.
            timeout: Seconds after which it is ended.
            description: What it does, in five to ten words, for the person who watches.

        """
        return await self._run_in_foreground(command, timeout, ctx)

    @tool(name="bash_output", read_only=True)
    async def _bash_output(  # noqa: D417 - ctx is not the model's
        self, job_id: str, *, ctx: ToolContext
    ) -> ToolOutput:
        """Return what a background job printed since it was last asked, and its status.

        Args:
            job_id: The id that `bash` returned, as in `bash-1`.

        """
        return self._read(self._jobs_of(ctx.agent).find(job_id))

    @tool(name="bash_kill")
    async def _bash_kill(  # noqa: D417 - ctx is not the model's
        self, job_id: str, *, ctx: ToolContext
    ) -> ToolOutput:
        """End a background job with everything it started; return the rest of its output.

        Args:
            job_id: The id that `bash` returned, as in `bash-1`.

        """
        jobs = self._jobs_of(ctx.agent)
        job = jobs.find(job_id)
        if job.outcome is not None:
            return self._read(job, f"{job.id} has already finished.")
        await jobs.kill(job)
        return self._read(job, f"Requested the end of {job.id}.")

    async def _run_in_foreground(
        self, command: str, timeout: float | None, ctx: ToolContext
    ) -> ToolOutput:
        seconds = self._timeout(timeout)
        started = await self._start(command, ctx, on_output=ctx.progress)
        run = started.run
        try:
            outcome = await run.finish(
                timeout_seconds=seconds, grace_seconds=self._settings.grace_seconds
            )
            stdout, stderr = run.stdout.take(), run.stderr.take()
        finally:
            run.close()
        if outcome.survivors:
            await self._jobs_of(ctx.agent).keep(run)
        text = command_text(stdout, stderr, outcome, timeout_seconds=seconds, notice=started.notice)
        truncated = bool(stdout.left_out_bytes or stderr.left_out_bytes)
        meta = {
            **facts(outcome),
            "truncated": truncated,
            "cwd": readable(started.cwd),
            "job_id": None,
        }
        return ToolOutput.of(text, meta=meta)

    async def _run_in_background(
        self, command: str, timeout: float | None, description: str | None, ctx: ToolContext
    ) -> ToolOutput:
        jobs = self._jobs_of(ctx.agent)
        job = jobs.reserve(command, description)
        try:
            started = await self._start(command, ctx)
        except BaseException:
            jobs.give_up(job)
            raise
        await jobs.begin(job, started.run)
        lines = [
            f"Started background job {job.id} (pid {started.run.process.pid}). "
            "bash_output reads its output, bash_kill ends it.",
            started.notice,
            "[timeout does not apply in the background]" if timeout is not None else None,
        ]
        text = "\n".join(line for line in lines if line)
        return ToolOutput.of(text, meta={"job_id": job.id, "cwd": readable(started.cwd)})

    async def _start(
        self,
        command: str,
        ctx: ToolContext,
        on_output: Callable[[str], None] = lambda line: None,
    ) -> _Started:
        if not command.strip():
            raise ToolError("`command` is empty", code="INVALID_ARGS")
        agent = ctx.agent
        cwd, notice = working_directory(ctx.cwd, agent.cwd)
        executor = await agent.hooks.waterfall(
            hookspecs.shell_executor, self._local_answer, agent=agent
        )
        environment = command_environment(
            ambient_environment(),
            keep=self._settings.keep_env,
            holds_secret=self._holds_secret,
            session_id=agent.id,
            cwd=cwd,
        )
        argv = (self._settings.shell, "-c", command)
        process = await executor.start(Command(argv, cwd, environment))
        stdout, stderr = self._capture("stdout", ctx), self._capture("stderr", ctx)
        return _Started(Run(process, stdout, stderr, on_output), cwd, notice)

    async def _local_answer(self, agent: Agent) -> Executor:
        return self._local

    def _capture(self, stream: str, ctx: ToolContext) -> Capture:
        limit = self._settings.output_limit_bytes
        spill = Spill(
            ctx.spill_dir,
            f"bash-{stream}-",
            threshold_bytes=limit,
            limit_bytes=self._settings.spill_limit_bytes,
        )
        return Capture(limit, spill)

    def _read(self, job: Job, first_line: str | None = None) -> ToolOutput:
        assert job.run is not None
        stdout, stderr = job.run.stdout.take(), job.run.stderr.take()
        text = job_text(stdout, stderr, job)
        if job.outcome is not None:
            job.is_reported = True
        meta = {
            **(facts(job.outcome) if job.outcome is not None else {}),
            "job_id": job.id,
            "status": job.status,
            "truncated": bool(stdout.left_out_bytes or stderr.left_out_bytes),
        }
        return ToolOutput.of(f"{first_line}\n{text}" if first_line else text, meta=meta)

    def _jobs_of(self, agent: Agent) -> Jobs:
        jobs = agent.stash.get(JOBS, None)
        if jobs is None:
            jobs = agent.stash[JOBS] = Jobs(
                limit=self._settings.max_jobs,
                grace_seconds=self._settings.grace_seconds,
                notify=lambda text: _tell(agent, text),
            )
            self._open.add(jobs)
        return jobs

    def _timeout(self, wanted: float | None) -> float:
        if wanted is None:
            return min(self._settings.timeout_seconds, self._settings.max_timeout_seconds)
        if not wanted > 0:
            raise ToolError("`timeout` must be more than 0 seconds", code="INVALID_ARGS")
        return min(wanted, self._settings.max_timeout_seconds)


def _tell(agent: Agent, text: str) -> None:
    # An agent that is gone needs no notice.
    with contextlib.suppress(AgentDisposedError):
        agent.inject(text, source=PluginSource("shell", form="job"))

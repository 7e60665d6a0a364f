"""The harness: builds every part, starts plugins, and owns what lives.

::

    async with Harness(config) as harness:
        agent = harness.agents.create()
        result = await agent.run("Fix the failing test.")
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dsh_core import hookspecs
from dsh_core.agents import Agent, AgentOptions, Agents
from dsh_core.agents.inside import refuse_inside
from dsh_core.commands import Commands
from dsh_core.config.model import AgentDefinition, HarnessConfig
from dsh_core.errors import ConfigError, HarnessError, PluginError, UserError, error_chain
from dsh_core.events import PluginTrace
from dsh_core.hooks import Hooks
from dsh_core.llm import Llm, ProviderConfig
from dsh_core.plugins import Plugins
from dsh_core.prompt import Prompt
from dsh_core.secrets import Secrets
from dsh_core.session import Sessions, Store
from dsh_core.tools import Tools
from dsh_core.tools.spill import INLINE_LIMIT_BYTES, SpillFolder

log = logging.getLogger("dsh")


class Harness:
    """One running dsh: plugins, models, tools, sessions, agents.

    Args:
        config: What is configured; None = nothing, which still has the built-in plugins.
        plugins: Plugin objects given by code, asked first: a mapping name → plugin, or a list
            whose names are taken from the objects' modules and classes.
        providers: Further providers.
        cwd: Where agents work unless they are told otherwise; None = the process's folder.
        trace: Record which plugin did what in every waterfall.
        inline_limit_bytes: Largest tool output that is not spilled to a file.
        cli_options: Plugin name → values of its command-line options.
        autostart: Create the agents that say `autostart` when the harness starts.

    """

    def __init__(
        self,
        config: HarnessConfig | None = None,
        *,
        plugins: Mapping[str, object] | Sequence[object] = (),
        providers: Sequence[ProviderConfig] = (),
        cwd: Path | str | None = None,
        trace: bool = False,
        inline_limit_bytes: int = INLINE_LIMIT_BYTES,
        cli_options: Mapping[str, Any] | None = None,
        autostart: bool = True,
    ):
        self.config = config or HarnessConfig()
        self.cwd = Path(cwd or os.getcwd()).absolute()
        self.cli_options: dict[str, Any] = dict(cli_options or {})
        self.inline_limit_bytes = inline_limit_bytes
        self._creates_agents = autostart
        self.spill = SpillFolder()
        self.secrets = Secrets()
        self.secrets.add_from([each.parameters for each in self.config.agents.values()])
        self.store: Store | None = None
        self.is_running = False
        self._stopping: asyncio.Task[None] | None = None
        self._telling: set[str] = set()
        self.plugins = Plugins(
            self,
            self.config,
            _named(plugins),
            self._report,
            tracer=self._trace if trace else None,
        )
        hooks = self.plugins.base
        self.tools = Tools(hooks, lambda: self.plugins.broadcast(hookspecs.tools_change))
        self.prompt = Prompt(lambda: self.plugins.broadcast(hookspecs.system_prompt_change))
        self.llm = Llm(
            hooks,
            lambda: self.plugins.broadcast(hookspecs.llm_adapter_change),
            self.secrets,
        )
        self.commands = Commands()
        self.sessions = Sessions(hooks, lambda: self.store)
        self.agents = Agents(self)
        for provider in (*self.config.providers.values(), *providers):
            self.llm.register_provider(provider, owner="config")

    # ---------------------------------------------------------------------- lifetime

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def load(self) -> None:
        """Load the plugins and check the providers; imports, no I/O. Safe to call again.

        Raises `ConfigError` for what cannot be used.
        """
        with self.secrets.kept_out():
            self.plugins.load()
        self.llm.check_providers(self.config.origins)

    async def start(self) -> None:
        """Load the plugins, find the store, start plugins and `autostart` agents.

        Raises `ConfigError` for what cannot be used, after undoing what was started.
        """
        self.load()
        self.spill.sweep()
        hooks = self.plugins.base
        try:
            with self.secrets.kept_out(), self.plugins.starting():
                await self.find_store()
                await hooks.notify(hookspecs.harness_start, harness=self)
        except BaseException:
            await self._stop_parts()
            raise
        self.is_running = True
        for definition in self.config.agents.values():
            if definition.autostart and self._creates_agents:
                self._autostart(definition)

    async def find_store(self) -> Store | None:
        """Ask the plugins who stores sessions. All that a command about stored sessions needs."""
        ask = self.plugins.base.waterfall
        self.store = await ask(hookspecs.session_store, _no_store, harness=self)
        return self.store

    def _autostart(self, definition: AgentDefinition) -> None:
        try:
            self.agents.create(definition)
        except HarnessError as error:
            log.error("agent %r did not start: %s", definition.name, self._said(error))  # noqa: TRY400 - for users

    async def stop(self) -> None:
        """Dispose all agents, flush, stop plugins, close connections. Safe to call again.

        Concurrent callers share one stop, and a cancelled caller does not end it half-way. Raises
        `AgentError` inside a turn, which it would wait for; nothing is disposed or stopped then.
        """
        if not self.is_running and self._stopping is None:
            return
        for agent in self.agents.list():
            refuse_inside(agent, "harness.stop")
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        try:
            await asyncio.gather(*(agent.dispose() for agent in self.agents.list()))
        except BaseException:
            self._stopping = None
            raise
        self.is_running = False
        await self.sessions.settle()
        await self._stop_parts()
        self._stopping = None

    async def _stop_parts(self) -> None:
        await self.plugins.stop()
        await self.llm.aclose()
        self.spill.remove()

    # ------------------------------------------------------------------------ agents

    def definition(self, wanted: str | AgentDefinition | None) -> AgentDefinition:
        """Return an agent definition by name; None = the default one.

        Raises `ConfigError` for an unknown name, with the known ones.
        """
        if isinstance(wanted, AgentDefinition):
            return wanted
        agents = self.config.agents
        name = wanted or self.config.default_agent
        if name is None and len(agents) > 1:
            raise ConfigError(
                "which agent? the configuration has several and no default_agent",
                remedy=f"Use -a NAME, or set default_agent. Agents: {', '.join(agents)}.",
            )
        name = name or next(iter(agents), "default")
        if name in agents:
            return agents[name]
        if not agents and name == "default":
            return AgentDefinition()
        known = ", ".join(agents) or "none"
        raise ConfigError(f"there is no agent {name!r}", remedy=f"Agents: {known}.")

    def check_tools(self, definition: AgentDefinition, hooks: Hooks) -> None:
        """Raise `ConfigError` when an agent names a tool that nobody brings.

        With plugins switched off for this run (`--safe`, `-p no:NAME`) tools miss on purpose.
        """
        if not self.config.safe and not self.config.blocked:
            self.tools.check_names(hooks, definition.tools, definition.where)

    def options_of(self, definition: AgentDefinition) -> AgentOptions:
        """Return the options an agent of this definition gets."""
        return AgentOptions(
            model=definition.model or self.llm.default_model(),
            system_prompt=definition.system_prompt,
            tools=definition.tools,
            parameters=dict(definition.parameters),
            stream=definition.stream,
        )

    def missing_model(self) -> UserError:
        """Return the error for a request without a model, with both remedies."""
        return ConfigError(
            "no model is configured",
            remedy=(
                "Set DEEPSEEK_API_KEY or OPENAI_API_KEY, or name a provider and a model in "
                "dsh.yaml: `dsh config check` shows what was found."
            ),
        )

    def forget(self, agent: Agent) -> None:
        """Take a disposed agent and its session out of the registries."""
        self.agents.remove(agent)
        self.sessions.forget(agent.session)

    # ------------------------------------------------------------------------- seams

    def remove_owner(self, owner: str) -> None:
        """Take away everything an owner contributed."""
        self.tools.remove_owner(owner)
        self.prompt.remove_owner(owner)
        self.llm.remove_owner(owner)
        self.commands.remove_owner(owner)
        self.agents.remove_owner(owner)

    def readable_roots(self) -> tuple[Path, ...]:
        """Return the folders outside any workspace that tools may read."""
        spilled = self.spill.existing
        return (spilled,) if spilled is not None else ()

    # ----------------------------------------------------------------------- reports

    def report_error(self, agent: Agent, turn: int, step: int, error: BaseException) -> None:
        """Tell plugins about a failure, and the log.

        One inside `agent_error`, or of a task that was abandoned, gets into the log only.
        """
        log.warning("agent %s: %s", agent.name, self._said(error))
        if agent.id in self._telling or agent.session.is_barred:
            return
        self._telling.add(agent.id)
        try:
            agent.hooks.emit(hookspecs.agent_error, agent=agent, turn=turn, step=step, error=error)
        finally:
            self._telling.discard(agent.id)

    def _report(self, error: PluginError, values: Mapping[str, Any]) -> None:
        """Report a failure that changes nothing; one inside `agent_error` goes to the log only."""
        agent = _agent_in(values, self.agents)
        if agent is None or error.hook == hookspecs.agent_error.__name__:
            log.error("%s", self._said(error))
            return
        turn, step = agent.session.open_turn or 0, agent.session.open_step or 0
        self.report_error(agent, turn, step, error)

    def _said(self, error: BaseException) -> str:
        return self.secrets.scrub(error_chain(error))

    def _trace(
        self,
        hook: str,
        seconds: float,
        ran: tuple[Mapping[str, Any], ...],
        values: Mapping[str, Any],
    ) -> None:
        """Record a waterfall: in the log of the open turn, elsewhere in the log file only."""
        agent = values.get("agent")
        session = agent.session if agent is not None else None
        if session is None or session.open_turn is None or session.is_publishing:
            log.info("trace %s %.6f s %s", hook, seconds, self.secrets.scrub(str(ran)))
            return
        session.append(PluginTrace(hook, round(seconds, 6), ran))


def _agent_in(values: Mapping[str, Any], agents: Agents) -> Agent | None:
    """Return the live agent that a hook's arguments are about, whatever a plugin calls its own."""
    for name in ("agent", "session"):
        subject = agents.get(getattr(values.get(name), "id", ""))
        if subject is not None:
            return subject
    return None


async def _no_store(harness: Harness) -> Store | None:
    return None


def _named(plugins: Mapping[str, object] | Sequence[object]) -> dict[str, object]:
    if isinstance(plugins, Mapping):
        return dict(plugins)
    named: dict[str, object] = {}
    for plugin in plugins:
        kind = plugin if isinstance(plugin, type) else type(plugin)
        base = getattr(plugin, "__name__", kind.__name__).rpartition(".")[2]
        name, number = base, 2
        while name in named:
            name, number = f"{base}_{number}", number + 1
        named[name] = plugin
    return named

"""What a command is given: the configuration and the harness, made when asked for."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsh_core.cli.screen import printable
from dsh_core.cli.standard import say as say
from dsh_core.errors import ConfigError, UserError
from dsh_core.record import record

if TYPE_CHECKING:
    from dsh_core.config.model import AgentDefinition, HarnessConfig
    from dsh_core.config.trust import TrustStore
    from dsh_core.harness import Harness


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise UserError(
            f"the working directory cannot be used: {error.strerror}",
            remedy="It may have been deleted: change to another one.",
        ) from error


@record(frozen=False)
class CliContext:
    """The core options of a command line, and what follows from them.

    Args:
        command: The command's name.
        config_file: `-c`.
        agent: `-a`.
        blocked: Names from `-p no:NAME`.
        overrides: `-s KEY=VALUE`.
        safe: `--safe`.
        cwd: Where the command was started.
        environ: Its environment.
    """

    command: str
    config_file: Path | None = None
    agent: str | None = None
    blocked: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    safe: bool = False
    cwd: Path = field(default_factory=_working_directory)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    _config: HarnessConfig | None = None

    @classmethod
    def from_options(cls, options: argparse.Namespace, *, command: str) -> CliContext:
        """Read the core options. Raises `UserError` for what they cannot be."""
        for value in options.block:
            if not value.startswith("no:") or not value[3:]:
                raise UserError(f"-p {value} is not understood", remedy="Write -p no:NAME.")
        return cls(
            command,
            Path(options.config) if options.config else None,
            options.agent,
            tuple(value[3:] for value in options.block),
            tuple(options.overrides),
            options.safe,
        )

    @property
    def trust(self) -> TrustStore:
        """Which project files the user has agreed to."""
        from dsh_core.config.files import user_dir
        from dsh_core.config.trust import TrustStore

        return TrustStore(user_dir(self.environ))

    def config(self) -> HarnessConfig:
        """Load the configuration once. Raises `ConfigError`."""
        if self._config is None:
            from dsh_core.config.load import load_config

            self._config = load_config(
                cwd=self.cwd,
                file=self.config_file,
                environ=self.environ,
                overrides=self.overrides,
                blocked=self.blocked,
                safe=self.safe,
                trust=self.trust,
            )
        return self._config

    def forget_config(self) -> None:
        """Load it anew next time, as after the user agreed to a file."""
        self._config = None

    def build(self, *, plugins: Mapping[str, object] | None = None, trace: bool = False) -> Harness:
        """Return a harness with its plugins loaded, not started. Raises `ConfigError`.

        It creates no `autostart` agents: a command creates the agent that was chosen.
        """
        from dsh_core.cli.conceal import conceal_environment
        from dsh_core.cli.logs import start_log
        from dsh_core.harness import Harness

        harness = Harness(
            self.config(), plugins=plugins or {}, cwd=self.cwd, trace=trace, autostart=False
        )
        secrets = harness.secrets
        start_log(self.environ, secrets.scrub)
        conceal_environment(secrets.found_in)
        harness.load()
        conceal_environment(secrets.found_in)  # settings of plugins may hold more
        return harness

    @asynccontextmanager
    async def harness(
        self, *, agent: str | None = None, plugins: Mapping[str, object] | None = None
    ) -> AsyncIterator[Harness]:
        """Run a harness; `agent` is checked to exist."""
        harness = self.build(plugins=plugins)
        harness.definition(agent or self.agent)
        async with harness:
            yield harness

    def check_model(self, harness: Harness, definition: AgentDefinition) -> None:
        """Raise `ConfigError` when an agent could not ask any model, before there is one."""
        from dsh_core import hookspecs
        from dsh_core.config.load import missing_key_error, missing_model_error

        hooks = harness.plugins.hooks_for(definition)
        if hooks.has(hookspecs.agent_request) or hooks.has(hookspecs.llm_stream):
            return  # a plugin may choose the model, or answer itself
        model = harness.options_of(definition).model
        if model is None:
            raise missing_model_error(self.config(), self.environ)
        provider = harness.llm.providers.get(model.partition("/")[0])
        if provider is None:
            known = ", ".join(harness.llm.providers) or "none"
            raise ConfigError(
                f"model {model!r} names a provider that is not configured",
                remedy=f"Providers: {known}. Models are written PROVIDER/MODEL.",
            )
        key = provider.api_key
        if provider.key_hint and (key is None or not key.reveal().strip()):
            raise missing_key_error(provider, self.environ)


def is_interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def say_note(text: str) -> None:
    """Say a note on one line, whatever the keys of a file hold that it names."""
    say(f"note: {' '.join(text.split())}")


def show(text: Any = "") -> None:
    """Write a line of the command's result to standard output; control characters are escaped."""
    print(printable(str(text)), flush=True)  # noqa: T201

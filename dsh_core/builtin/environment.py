"""Built-in plugin `environment`: tells the model where it works."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dsh_core.marks import hookimpl
from dsh_core.request import Section

if TYPE_CHECKING:
    from dsh_core.agents import Agent


class Environment:
    """Adds one prompt section. It holds nothing that changes while a session lasts."""

    @hookimpl
    async def system_prompt_sections(self, agent: Agent) -> list[Section]:
        """Name the working directory and the platform."""
        text = f"Working directory: {agent.cwd}\nPlatform: {sys.platform}"
        return [Section("environment", text, order=-50)]

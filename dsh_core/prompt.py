"""The system text of a step: named sections in a fixed order, and the tools beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dsh_core import hookspecs
from dsh_core.codec import clean_text
from dsh_core.errors import PluginError, UserError
from dsh_core.messages import Message
from dsh_core.request import Assembly, Request, Section

if TYPE_CHECKING:
    from dsh_core.agents import Agent

AGENT_SECTION = "agent"
"""The name of the section that holds the agent's own `system_prompt`."""


class Prompt:
    """Sections registered at run time, and the assembly of a step.

    Args:
        changed: Called after each change.

    """

    def __init__(self, changed: Callable[[], None]):
        self._changed = changed
        self._sections: list[tuple[str, Section]] = []

    def register(self, section: Section, *, owner: str) -> Callable[[], None]:
        """Add a section for every agent; returns a disposer.

        Raises `UserError` on a taken name, and for a section without text or place.
        """
        if not _is_usable(section):
            raise UserError(f"{section!r} is no usable prompt section", where=owner)
        for other, existing in self._sections:
            if existing.name == section.name:
                raise UserError(f"{other!r} has a prompt section {section.name!r} already")
        entry = (owner, section)
        self._sections.append(entry)
        self._changed()

        def dispose() -> None:
            kept = [other for other in self._sections if other is not entry]
            if len(kept) != len(self._sections):
                self._sections = kept
                self._changed()

        return dispose

    def remove_owner(self, owner: str) -> None:
        """Take away everything an owner registered."""
        kept = [entry for entry in self._sections if entry[0] != owner]
        if len(kept) != len(self._sections):
            self._sections = kept
            self._changed()

    async def assemble(self, agent: Agent) -> Assembly:
        """Return system text and tools for the next request of an agent.

        Raises `PluginError` when a plugin gives junk, or two sections one name.
        """
        sections = await self._collect(agent)
        if agent.options.system_prompt:
            sections.append(("", Section(AGENT_SECTION, agent.options.system_prompt)))
        _check_names(sections)
        contributed = {section.name: (owner, section.text) for owner, section in sections}
        ordered = sorted((section for _, section in sections), key=lambda s: (s.order, s.name))
        assembly = Assembly(
            tuple(ordered), agent.harness.tools.schemas(agent.hooks, agent.options.tools)
        )

        async def unchanged(agent: Agent, assembly: Assembly) -> Assembly:
            return assembly

        assembled = await agent.hooks.waterfall(
            hookspecs.system_prompt_assemble, unchanged, agent=agent, assembly=assembly
        )
        assembled.contributed = contributed
        return assembled

    async def request(
        self,
        agent: Agent,
        assembly: Assembly,
        messages: tuple[Message, ...],
        *,
        turn: int = 0,
        step: int = 0,
    ) -> Request:
        """Build a request as a step of the agent does, with every plugin's edits; logs nothing.

        A plugin that asks the model about the conversation begins with it, and so shares the
        provider's cached prefix. `turn` and `step` are 0 outside one. Raises `UserError` when no
        model is chosen, `PluginError` for messages that are none.
        """
        options = agent.options
        request = Request(
            options.model or "",
            messages,
            system=clean_text(assembly.system),
            tools=assembly.tools,
            parameters=options.parameters,
            stream=options.stream,
            session_id=agent.session.id,
        )

        async def unchanged(agent: Agent, turn: int, step: int, request: Request) -> Request:
            return request

        built = await agent.hooks.waterfall(
            hookspecs.agent_request, unchanged, agent=agent, turn=turn, step=step, request=request
        )
        if not built.model:
            raise agent.harness.missing_model()
        built.messages, built.tools = tuple(built.messages), tuple(built.tools)
        if built.messages is not messages:
            _check_messages(built)
        return built

    async def _collect(self, agent: Agent) -> list[tuple[str, Section]]:
        is_on = agent.harness.plugins.is_on
        sections = [entry for entry in self._sections if is_on(entry[0], agent.hooks)]
        answers = await agent.hooks.collect(hookspecs.system_prompt_sections, agent=agent)
        for plugin, answer in answers:
            if not isinstance(answer, (list, tuple)) or not all(map(_is_usable, answer)):
                raise PluginError(plugin, "system_prompt_sections", _problem(answer))
            sections.extend((plugin, section) for section in answer)
        return sections


def _check_messages(request: Request) -> None:
    for message in request.messages:
        if not isinstance(message, Message):
            writer = request.changed_by.get("messages", "?")
            text = f"put a {type(message).__name__} among the messages"
            raise PluginError(writer, hookspecs.agent_request.__name__, text)


def _problem(answer: object) -> str:
    """Say why an answer is no list of sections."""
    if not isinstance(answer, (list, tuple)):
        return f"returned a {type(answer).__name__}; a list of sections is wanted"
    item = next(item for item in answer if not _is_usable(item))
    if not isinstance(item, Section):
        return f"returned a list with a {type(item).__name__}; a list of sections is wanted"
    return "returned a section that wants texts as name and text, a finite number as order"


def _is_usable(section: object) -> bool:
    return (
        isinstance(section, Section)
        and isinstance(section.name, str)
        and isinstance(section.text, str)
        and isinstance(section.order, (int, float))
        and math.isfinite(section.order)
    )


def _check_names(sections: list[tuple[str, Section]]) -> None:
    owners: dict[str, str] = {}
    for owner, section in sections:
        if section.name in owners:
            raise PluginError(
                owner or owners[section.name],
                "system_prompt_sections",
                f"section {section.name!r} exists already, from {owners[section.name]!r}",
            )
        owners[section.name] = owner

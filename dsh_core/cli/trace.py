"""`dsh trace`: which plugin changed what in a session, step by step, and how long it took."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dsh_core.cli.context import CliContext, show
from dsh_core.cli.main import EXIT_OK, Parser, UsageError
from dsh_core.cli.screen import one_line, printable
from dsh_core.codec import to_json
from dsh_core.errors import UserError
from dsh_core.events import Event, PluginTrace, StepEnd, StepStart, ToolCallEvent, TurnStart
from dsh_core.record import record

VERDICT_HOOK = "tools_authorize"
"""Not recorded itself: every `tool/call` event says whose verdict counted."""
LINE_WIDTH = 200


def command(argv: Sequence[str], context: CliContext) -> int:
    """Show which plugin changed what in a session that was run with --trace."""
    parser = Parser(prog="dsh trace", description=command.__doc__)
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="id of a stored session, or a file that `dsh run --json --trace` wrote",
    )
    parser.add_argument("--last", action="store_true", help="the last session of this folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    if (arguments.session is None) != arguments.last:
        raise UsageError(
            "which session?", where="dsh trace", remedy="Name one, or a file, or write --last."
        )
    named, events = _session(arguments.session, context)
    entries = list(traced(events))
    if not any(isinstance(entry.data, PluginTrace) for entry in entries):
        raise UserError(
            "nothing was recorded: the session was not run with --trace",
            where=named,
            remedy="Record one: dsh run --trace …",
        )
    if arguments.json:
        show(json.dumps([entry.to_json() for entry in entries], indent=2))
    else:
        _print(named, entries)
    return EXIT_OK


@record()
class Entry:
    """Something plugins did, and when: `step` is None between steps."""

    turn: int
    step: int | None
    data: PluginTrace | ToolCallEvent

    def to_json(self) -> dict[str, Any]:
        """Return what `--json` prints; a verdict looks like a hook that one plugin decided."""
        place = {"turn": self.turn, "step": self.step}
        if isinstance(self.data, PluginTrace):
            return {**place, **_untagged(self.data)}
        call = self.data
        decision = [f"{call.name}: {call.verdict}"]
        judge = {"plugin": call.judged_by, "decided": True, "decision": decision}
        ran = [judge] if call.judged_by is not None else []
        return {**place, "hook": VERDICT_HOOK, "call_id": call.call_id, "ran": ran}


def traced(events: Sequence[Event]) -> Iterator[Entry]:
    """Yield what plugins did, each with its turn and step."""
    turn, step = 0, None
    for event in events:
        match event.data:
            case TurnStart(turn=number):
                turn, step = number, None
            case StepStart(step=number):
                step = number
            case StepEnd():
                step = None
            case PluginTrace() as data:
                yield Entry(turn, step, data)
            case ToolCallEvent(judged_by=str()) as call:
                yield Entry(turn, step, call)


def _untagged(data: PluginTrace) -> dict[str, Any]:
    values: Any = to_json(data)
    del values["type"]
    return dict(values)


# -------------------------------------------------------------------------- which session


def _session(wanted: str | None, context: CliContext) -> tuple[str, Sequence[Event]]:
    """Return what a session is called here, and its events."""
    if wanted is not None:
        file = context.cwd / wanted
        if file.is_file():
            from dsh_core.session.recorded import read_session

            return wanted, read_session(file)
    return asyncio.run(_stored(wanted, context))


async def _stored(wanted: str | None, context: CliContext) -> tuple[str, Sequence[Event]]:
    from dsh_core.cli.resume import last_session

    async with context.harness() as harness:
        if wanted is not None and harness.store is None:
            said = "there is no such file, and nothing stores sessions here"
            raise UserError(said, where=wanted, remedy="pip install dsh-persistence")
        session_id = wanted or await last_session(harness)
        assert harness.store is not None
        stored = await harness.store.load(session_id)
    return f"session {session_id}", stored.events


# ------------------------------------------------------------------------------- printing


def _print(named: str, entries: Sequence[Entry]) -> None:
    show(printable(named))
    place: tuple[int, int | None] | None = None
    for entry in entries:
        if (entry.turn, entry.step) != place:
            place = (entry.turn, entry.step)
            step = "between steps" if entry.step is None else f"step {entry.step}"
            show(f"turn {entry.turn}, {step}")
        if isinstance(entry.data, PluginTrace):
            _hook(entry.data)
        else:
            call = entry.data
            words = f"{call.name}: {call.verdict} by {call.judged_by}"
            show(f"  {VERDICT_HOOK}  {one_line(words)}")


def _hook(trace: PluginTrace) -> None:
    show(f"  {trace.hook}  {trace.seconds * 1000:.2f} ms")
    for one in trace.ran:
        _plugin(one)


def _plugin(one: Mapping[str, Any]) -> None:
    said = f"    {one.get('plugin')}  {one.get('seconds', 0) * 1000:.2f} ms"
    changed, diff = one.get("changed") or (), one.get("diff") or {}
    if one.get("decided"):
        said += "  decided"
    show(printable(said + (f"  changed {', '.join(changed)}" if changed else "")))
    for name in changed:
        for line in diff.get(name, ()):
            show(f"      {one_line(f'{name} {line}', LINE_WIDTH)}")
    for line in one.get("decision") or ():
        show(f"      {one_line(line, LINE_WIDTH)}")

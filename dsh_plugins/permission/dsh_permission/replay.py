"""`dsh permission replay`: what other rules would have decided for a recorded session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from dsh_core import UserError, hookspecs
from dsh_permission.check import Defaults, answer

if TYPE_CHECKING:
    from dsh_core import CliContext

_KNOWN = ("mode", "allow", "ask", "deny", "read_only_tools", "protected")


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call in a log, and whether it was let through."""

    name: str
    arguments: Mapping[str, Any]
    verdict: str
    seq: int


def replay_session(context: CliContext, session: str, rules: Path) -> Iterator[dict[str, Any]]:
    """Yield a line for each call of a session, then a summary.

    Raises `UserError` where the session or the rules cannot be read.
    """
    from dsh_permission.cli import defaults_of

    policy = _policy(rules)
    cwd, calls = _recorded(context, session)
    defaults = defaults_of(context)
    changed = 0
    for call in calls:
        line = {
            "tool": call.name,
            "arguments": call.arguments,
            "rules": {name: policy.get(name) or [] for name in ("allow", "ask", "deny")},
            "workspace": cwd or str(defaults.workspace),
            **{name: policy[name] for name in ("mode", "read_only_tools") if name in policy},
        }
        decided = answer(json.dumps(line), _with_protected(defaults, policy))
        changed += decided["decision"] != call.verdict
        arguments = {"tool": call.name, "arguments": call.arguments, "seq": call.seq}
        yield {**arguments, "recorded": call.verdict, **decided}
    yield {"summary": {"calls": len(calls), "decided_otherwise": changed}}


def _with_protected(defaults: Defaults, policy: Mapping[str, Any]) -> Defaults:
    from dataclasses import replace

    return replace(defaults, protected=tuple(policy.get("protected") or ()))


def _policy(path: Path) -> Mapping[str, Any]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"the rules cannot be read: {error}", where=str(path)) from error
    if isinstance(data, dict) and "plugins" in data:
        data = (data["plugins"] or {}).get("permission") or {}
    if not isinstance(data, dict) or set(data) - set(_KNOWN):
        raise UserError(
            "a mapping with allow, ask, deny and mode is wanted",
            where=str(path),
            remedy=f"Keys: {', '.join(_KNOWN)}; or a whole dsh.yaml.",
        )
    return data


def _recorded(context: CliContext, session: str) -> tuple[str | None, list[RecordedCall]]:
    path = Path(session)
    if path.is_file():
        return _from_file(path)
    return asyncio.run(_from_store(context, session))


def _from_file(path: Path) -> tuple[str | None, list[RecordedCall]]:
    cwd, calls = None, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            event = json.loads(line)
        except ValueError as error:
            raise UserError(f"line {number} is not JSON: {error}", where=str(path)) from None
        if isinstance(event, dict) and "session" in event:
            cwd = event["session"].get("cwd")
        if isinstance(event, dict) and event.get("type") == "tool/call":
            data = event.get("data", event)
            calls.append(_call(data, event.get("seq", number)))
    return cwd, calls


async def _from_store(context: CliContext, session: str) -> tuple[str | None, list[RecordedCall]]:
    async with context.harness() as harness:

        async def nobody(harness: Any) -> None:
            return None

        hooks = harness.plugins.base
        store = await hooks.waterfall(hookspecs.session_store, nobody, harness=harness)
        if store is None:
            raise UserError(
                f"there is no file {session!r}, and no plugin stores sessions",
                remedy="Give a file of `dsh run --json`, or install dsh-persistence.",
            )
        stored = await store.load(session)
        events = [event.to_json() for event in stored.events]
    calls = [_call(e.get("data", e), e["seq"]) for e in events if e["type"] == "tool/call"]
    return stored.header.cwd, calls


def _call(data: Mapping[str, Any], seq: int) -> RecordedCall:
    try:
        arguments = json.loads(data["arguments"] or "{}")
    except ValueError:
        arguments = {}
    is_object = isinstance(arguments, dict)
    return RecordedCall(
        data["name"], arguments if is_object else {}, data.get("verdict", "allow"), seq
    )


__all__ = ["RecordedCall", "replay_session"]

"""`dsh sessions fork`, `rm` and `repair`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dsh_core import Session, UserError
from dsh_core.cli import EXIT_OK, printable, say, show
from dsh_persistence.contract import SessionStore

if TYPE_CHECKING:
    import argparse

    from dsh_persistence.cli import Stored


def add_fork(verbs: Any) -> None:
    """Add `fork`."""
    verb = verbs.add_parser("fork", help="begin a session with another's turns")
    verb.add_argument("session")
    verb.add_argument(
        "--at-turn", type=int, metavar="N", help="the last turn to take; all if not said"
    )
    verb.add_argument("--id", metavar="ID", help="the new session's id")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(action=fork)


async def fork(arguments: argparse.Namespace, stored: Stored) -> int:
    """Store a fork; the parent is only read."""
    branch = stored.harness.sessions.branch
    child = await branch(arguments.session, at_turn=arguments.at_turn, new_id=arguments.id)
    if not child.events:
        raise UserError(
            f"session {arguments.session!r} has no turn that ended, so there is nothing to fork",
            remedy="Resume it, or begin a new one.",
        )
    await stored.store.append(child.header, child.events)
    if arguments.json:
        facts = {"id": child.header.id, "parent": arguments.session, "events": len(child.events)}
        show(json.dumps(facts))
    else:
        show(child.header.id)
        say(f'go on with: dsh run --resume {child.header.id} "…"')
    return EXIT_OK


def add_rm(verbs: Any) -> None:
    """Add `rm`."""
    verb = verbs.add_parser("rm", help="remove sessions for good")
    verb.add_argument("sessions", nargs="+", metavar="session")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(action=rm)


async def rm(arguments: argparse.Namespace, stored: Stored) -> int:
    """Remove the sessions one after the other; stops at the first that cannot be."""
    removed: list[str] = []
    try:
        for session_id in arguments.sessions:
            await stored.store.delete(session_id)
            removed.append(session_id)
    finally:
        if arguments.json:
            show(json.dumps({"removed": removed}))
        else:
            for session_id in removed:
                say(f"removed {session_id}")
    return EXIT_OK


def add_repair(verbs: Any) -> None:
    """Add `repair`."""
    verb = verbs.add_parser(
        "repair", help="save what can be read of a damaged session; keeps it as it was, too"
    )
    verb.add_argument("session")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(action=repair)


async def repair(arguments: argparse.Namespace, stored: Stored) -> int:
    """Mend a session and see that it loads."""
    if not isinstance(stored.store, SessionStore):
        raise UserError("this store repairs nothing", remedy="Ask the plugin that stores sessions.")
    done = await stored.store.repair(arguments.session)
    mended = await stored.store.load(arguments.session)
    if done.kept_as is not None:  # raises where it does not fit together
        Session(mended.header, stored.harness.plugins.base, seed=mended.events)
    if arguments.json:
        facts = {"session": arguments.session, "kept_as": done.kept_as, "events": done.events}
        show(json.dumps({**facts, "lost": list(done.lost)}, indent=2))
        return EXIT_OK
    if done.kept_as is None:
        say(f"nothing is wrong with {arguments.session}")
        return EXIT_OK
    for line in done.lost:
        say(f"lost: {printable(line)}")
    say(f"{arguments.session} has {done.events} events now; as it was it is {done.kept_as}")
    return EXIT_OK

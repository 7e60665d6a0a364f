"""`dsh sessions`: list, look at, copy and mend what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsh_core import Harness, Store, UserError
from dsh_core.cli import Parser
from dsh_persistence.contract import SessionStore

if TYPE_CHECKING:
    import argparse

    from dsh_core.cli import CliContext


@dataclass(frozen=True, slots=True)
class Stored:
    """What the commands work with: a harness that is not started, and its store."""

    harness: Harness
    store: Store


def sessions(argv: Sequence[str], context: CliContext) -> int:
    """Run `dsh sessions ARGV`."""
    arguments = parser().parse_args(argv)
    return asyncio.run(_run(arguments, context))


def parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs."""
    from dsh_persistence.cli import change, documents, listing

    top = Parser(prog="dsh sessions", description="List, show, copy and mend stored sessions.")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for add in (listing.add_list, documents.add_show, documents.add_export, change.add_fork):
        add(verbs)
    change.add_rm(verbs)
    change.add_repair(verbs)
    return top


async def _run(arguments: argparse.Namespace, context: CliContext) -> int:
    async with opened(context) as stored:
        code: int = await arguments.action(arguments, stored)
    return code


@asynccontextmanager
async def opened(context: CliContext) -> AsyncIterator[Stored]:
    """Find the store without starting anything. Raises `UserError` when there is none."""
    harness = context.build()
    store = await harness.find_store()
    if store is None:
        raise UserError("nothing stores sessions here", remedy="Switch the plugin persistence on.")
    try:
        yield Stored(harness, store)
    finally:
        if isinstance(store, SessionStore):
            await store.close()

"""Which session `--continue` goes on with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_core.errors import UserError

if TYPE_CHECKING:
    from dsh_core.harness import Harness


async def last_session(harness: Harness) -> str:
    """Return the id of the session that was last written in the harness's folder.

    Raises `UserError` when there is none, or nobody stores sessions.
    """
    if harness.store is None:
        raise UserError(
            "there is no session to go on with: nothing stores sessions here",
            remedy="pip install dsh-persistence",
        )
    page = await harness.store.list(limit=1, cwd=str(harness.cwd))
    if not page.sessions:
        raise UserError(
            f"there is no stored session of {harness.cwd}",
            remedy="`dsh sessions list` shows those of other folders; `--resume ID` takes one.",
        )
    return page.sessions[0].header.id

"""Sessions: append-only logs, and what is derived from them."""

from __future__ import annotations

from dsh_core.session.header import FORMAT_VERSION, SessionHeader
from dsh_core.session.log import Session
from dsh_core.session.registry import Sessions
from dsh_core.session.repair import closers
from dsh_core.session.store import SessionLock, SessionPage, Store, StoredSession
from dsh_core.session.summary import SessionSummary, SummaryFold, summarise

__all__ = [
    "FORMAT_VERSION",
    "Session",
    "SessionHeader",
    "SessionLock",
    "SessionPage",
    "SessionSummary",
    "Sessions",
    "Store",
    "StoredSession",
    "SummaryFold",
    "closers",
    "summarise",
]

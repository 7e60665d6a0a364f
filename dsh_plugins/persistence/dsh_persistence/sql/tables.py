"""The tables, and the version of their layout."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)

LAYOUT = 1
"""Of the tables; that of what stands in them is the version in each session's header."""

metadata = MetaData()

layout = Table("dsh_layout", metadata, Column("version", Integer, nullable=False))

sessions = Table(
    "dsh_sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("created_at", Float(53), nullable=False),
    Column("updated_at", Float(53), nullable=False),
    Column("folder", Text),  # the working directory, as JSON: a path need not be Unicode
    Column("header", Text, nullable=False),
    Column("events", Integer, nullable=False),
    Column("mark", Text, nullable=False),  # what a list shows, as in a file's mark
    Index("dsh_sessions_newest", "updated_at", "id"),
    Index("dsh_sessions_of_folder", "folder", "updated_at", "id"),
)

events = Table(
    "dsh_events",
    metadata,
    Column("session", Text, ForeignKey("dsh_sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("line", Text, nullable=False),
)

owners = Table(
    "dsh_owners",
    metadata,
    Column("session", Text, primary_key=True),
    Column("owner", Text, nullable=False),
)
"""Who holds which lock, for messages only; where the database holds the locks."""

"""Makes the store that the settings name."""

from __future__ import annotations

import os
from pathlib import Path

from dsh_core import ConfigError, Secrets
from dsh_persistence.contract import SessionStore
from dsh_persistence.places import default_folder
from dsh_persistence.settings import Settings

DATABASE = "sessions.db"


def open_store(settings: Settings, secrets: Secrets) -> SessionStore:
    """Return a store; nothing is touched until it is used.

    Raises `ConfigError` for a database that cannot be meant, or whose driver is not installed.
    """
    if settings.backend == "jsonl":
        from dsh_persistence.jsonl import JsonlStore

        return JsonlStore(folder_of(settings), sync=settings.sync, scrub=secrets.scrub)
    try:
        from dsh_persistence.sql.store import SqlStore
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is not installed",
            where="plugins.persistence.backend",
            remedy="pip install 'dsh-persistence[sql]'",
        ) from error
    url = settings.url or f"sqlite:///{folder_of(settings) / DATABASE}"
    return SqlStore(url, is_synced=settings.sync != "never", scrub=secrets.scrub)


def folder_of(settings: Settings) -> Path:
    """Return the folder that the settings mean."""
    if settings.folder:
        return Path(settings.folder).expanduser().absolute()
    return default_folder(os.environ)

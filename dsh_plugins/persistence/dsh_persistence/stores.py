"""Makes the store that the settings name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_persistence.contract import SessionStore
from dsh_persistence.jsonl import JsonlStore
from dsh_persistence.places import default_folder
from dsh_persistence.settings import Settings

if TYPE_CHECKING:
    from dsh_core import Harness


def open_store(settings: Settings, harness: Harness) -> SessionStore:
    """Return a store; nothing is touched until it is used."""
    return JsonlStore(folder_of(settings), sync=settings.sync, scrub=harness.secrets.scrub)


def folder_of(settings: Settings) -> Path:
    """Return the folder that the settings mean."""
    if settings.folder:
        return Path(settings.folder).expanduser().absolute()
    return default_folder(os.environ)

"""Where session files stand: a folder for each project, in it a file for each session."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from dsh_persistence.failures import DamageError, no_session, reading

SUFFIX = ".jsonl"
NO_PROJECT = "no-project"
_NAME_CHARACTERS = 80


def default_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for sessions where none is set: the user's data folder of dsh."""
    own = environ.get("DSH_USER_DIR", "").strip()
    if own:
        return Path(own).expanduser().absolute() / "sessions"
    import platformdirs  # not needed, and not imported, where the folder is given

    return platformdirs.user_data_path("dsh-core") / "sessions"


def project_folder(root: Path, cwd: str | None) -> Path:
    """Return the folder for the sessions of a project: its path readably, and a digest of it."""
    if cwd is None:
        return root / NO_PROJECT
    data = os.fsencode(cwd)
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", cwd).strip("-.")[-_NAME_CHARACTERS:]
    return root / f"{readable or 'root'}-{hashlib.sha256(data).hexdigest()[:8]}"


def find(root: Path, session_id: str) -> Path:
    """Return the file of a session.

    Raises `NoSessionError`, `DamageError` when it is stored twice, and `StoreError` where the
    system does not let us look.
    """
    found = [folder / f"{session_id}{SUFFIX}" for folder in project_folders(root)]
    found = [path for path in found if _exists(path)]
    if not found:
        raise no_session(session_id)
    if len(found) > 1:
        raise DamageError(
            f"session {session_id!r} is stored twice",
            where=", ".join(map(str, found)),
            remedy="Move away the one that you do not want.",
        )
    return found[0]


def project_folders(root: Path) -> list[Path]:
    """Return the folders there are; none where nothing was stored yet."""
    try:
        with reading(root), os.scandir(root) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir()]
    except Exception as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return []
        raise


def _exists(path: Path) -> bool:
    with reading(path):
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

"""The session files below one folder, and which of them this process writes.

Everything but `read` belongs to one thread.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dsh_core import Event, SessionHeader
from dsh_persistence.disk import make_folders
from dsh_persistence.failures import NoSessionError, following, storing, taken
from dsh_persistence.mending import Repair
from dsh_persistence.migrations import Migrations
from dsh_persistence.owner import Ownership, in_use, signature
from dsh_persistence.places import SUFFIX, find, project_folder
from dsh_persistence.reading import Reading, read_session, stamp_of
from dsh_persistence.repair import repair_file
from dsh_persistence.session_file import SessionFile, Ways
from dsh_persistence.upgrade import upgrade

log = logging.getLogger("dsh.persistence")

BESIDE = (".torn", ".new")
"""What may stand beside a session's file and goes with it."""


class SessionFiles:
    """Finds, opens and locks session files. Methods raise what `SessionStore` says."""

    def __init__(self, root: Path, ways: Ways, migrations: Migrations):
        self._root = root
        self._ways = ways
        self._migrations = migrations
        self._owned: dict[str, Ownership] = {}
        self._open: dict[str, SessionFile] = {}
        self._cuts: dict[str, int] = {}
        self._known: dict[str, Reading] = {}

    # ------------------------------------------------------------------------- events

    def append(self, header: SessionHeader, events: Sequence[Event], *, flush: bool) -> None:
        """Write events that are not stored yet."""
        path = self._new_path(header)
        with storing(path):
            file = self._file(header)
            if file is None:
                if not events:
                    return
                file = self._create(path, header, following(events, 0))
                events = ()
            try:
                file.append(following(events, file.count), flush=flush)
            except OSError:
                self._give_up(header.id, file)
                raise

    def count(self, header: SessionHeader) -> int:
        """Return how many events are stored."""
        with storing(self._new_path(header)):
            file = self._file(header)
        return file.count if file is not None else 0

    def read(self, session_id: str) -> Reading:
        """Return all that is stored; may run in any thread."""
        found = read_session(find(self._root, session_id), self._migrations)
        if session_id in self._owned:
            self._known[session_id] = replace(found, events=())
        return found

    def _create(self, path: Path, header: SessionHeader, events: Sequence[Event]) -> SessionFile:
        try:
            file = SessionFile.create(self._ways, path, header, events)
        except FileExistsError:
            raise taken(header.id, str(path)) from None
        self._open[header.id] = file
        return file

    def _file(self, header: SessionHeader) -> SessionFile | None:
        """Return the session's file, open and locked; None = there is none yet."""
        if (file := self._open.get(header.id)) is not None:
            return file
        self._own(header.id, self._new_path(header).parent)
        try:
            path = find(self._root, header.id)
        except NoSessionError:
            return None
        self._cut(header.id, path)
        found = self._known.pop(header.id, None)
        if found is None or found.stamp != stamp_of(path):
            found = read_session(path, self._migrations)
        if found.header.created_at != header.created_at:
            raise taken(header.id, str(path))
        if found.version != self._migrations.current:
            found = upgrade(self._ways, path, found, self._migrations)
        file = self._open[header.id] = SessionFile.open(self._ways, path, found)
        return file

    def _give_up(self, session_id: str, file: SessionFile) -> None:
        """Close a file that failed; it is opened again from what is there."""
        self._open.pop(session_id, None)
        if file.cut_at is not None:
            self._cuts[session_id] = file.cut_at
        with suppress(OSError):  # its failure is being reported already
            file.close()

    def _cut(self, session_id: str, path: Path) -> None:
        """Cut off what a failed write left, so that it is never taken for stored."""
        size = self._cuts.get(session_id)
        if size is None:
            return
        disk = self._ways.disk
        file = disk.open(path)
        try:
            if path.stat().st_size > size:
                disk.truncate(file, size)
        finally:
            disk.close(file)
        del self._cuts[session_id]

    def _new_path(self, header: SessionHeader) -> Path:
        return project_folder(self._root, header.cwd) / f"{header.id}{SUFFIX}"

    # -------------------------------------------------------------------------- owning

    def own(self, session_id: str) -> Ownership:
        """Take the lock of a stored session."""
        if session_id in self._owned:
            raise in_use(session_id, signature())
        return self._own(session_id, find(self._root, session_id).parent)

    def _own(self, session_id: str, folder: Path) -> Ownership:
        if (owner := self._owned.get(session_id)) is None:
            make_folders(self._ways.disk, folder, is_synced=self._ways.is_synced)
            path = folder / f"{session_id}.lock"
            owner = self._owned[session_id] = Ownership.take(path, session_id)
        return owner

    def owner(self, session_id: str) -> Ownership | None:
        """Return the lock of a session that is written here; may be asked in any thread."""
        return self._owned.get(session_id)

    def disown(self, session_id: str, owner: object) -> None:
        """Close a session's file and give back its lock, unless somebody else took it since."""
        held = self._owned.get(session_id)
        if held is None or held is not owner:
            return
        self._close(session_id)
        held.release()
        del self._owned[session_id]

    def _close(self, session_id: str) -> None:
        self._known.pop(session_id, None)
        file = self._open.pop(session_id, None)
        if file is None:
            return
        try:
            file.close()
        except OSError as error:
            log.error("%s could not be closed: %s", file.path, error)  # noqa: TRY400 - for users

    def delete(self, session_id: str) -> None:
        """Remove a session's files."""
        owner = self.own(session_id)
        try:
            path = find(self._root, session_id)
            with storing(path):
                self._ways.disk.remove(path)
                for kept in path.parent.glob(f"{session_id}.*"):
                    if kept.suffix in BESIDE or ".jsonl." in kept.name:
                        self._ways.disk.remove(kept)
        finally:
            self.disown(session_id, owner)

    def repair(self, session_id: str) -> Repair:
        """Write a damaged file anew."""
        owner = self.own(session_id)
        try:
            return repair_file(self._ways, find(self._root, session_id), self._migrations)
        finally:
            self.disown(session_id, owner)

    def close(self) -> None:
        """Close all files and give back all locks."""
        for session_id, owner in [*self._owned.items()]:
            self.disown(session_id, owner)

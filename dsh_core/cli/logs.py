"""Where the command line's log goes: a file in the user's log folder, or `DSH_LOG=FILE`.

Failures that a run shows as they happen go to the file only; those that nobody would see otherwise
(level ERROR) are also said in one line on standard error.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SIZE_BYTES = 1_000_000
LOG_VARIABLE = "DSH_LOG"


class _Scrubbed(logging.Formatter):
    """Writes records, tracebacks included, without what `scrub` takes out."""

    def __init__(self, form: str, scrub: Callable[[str], str]):
        super().__init__(form)
        self._scrub = scrub

    def format(self, record: logging.LogRecord) -> str:
        return self._scrub(super().format(record))


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """A log that only its user can read: it may repeat what models and tools said."""

    def _open(self) -> Any:
        opened = super()._open()
        os.fchmod(opened.fileno(), 0o600)
        return opened


def start_log(environ: Mapping[str, str], scrub: Callable[[str], str]) -> None:
    """Send the logger `dsh` to its file. A folder that cannot be written costs the file only."""
    logger = logging.getLogger("dsh")
    logger.propagate = False
    logging.raiseExceptions = False  # a log that cannot be written is no failure of the run
    logger.setLevel(logging.INFO)
    spoken = logging.StreamHandler(sys.stderr)
    spoken.setLevel(logging.ERROR)
    spoken.setFormatter(_Scrubbed("dsh: %(message)s", scrub))
    handlers: list[logging.Handler] = [spoken]
    path = _path(environ)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _PrivateFile(path, maxBytes=SIZE_BYTES, backupCount=1, encoding="utf-8", delay=True)
    except OSError as error:
        logger.handlers = handlers
        logger.error("no log is kept in %s: %s", path.parent, error.strerror)  # noqa: TRY400 - one line
        return
    file.setFormatter(_Scrubbed("%(asctime)s %(process)d %(levelname)s %(message)s", scrub))
    logger.handlers = [*handlers, file]


def _path(environ: Mapping[str, str]) -> Path:
    chosen = environ.get(LOG_VARIABLE, "").strip()
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_log_dir("dsh-core")) / "dsh.log"

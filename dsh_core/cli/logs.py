"""Where the command line's log goes: a file in the user's log folder, or `DSH_LOG=FILE`.

Failures that a run shows as they happen go to the file only; those that nobody would see otherwise
(level ERROR) are also said in one line on standard error.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import stat
import sys
from collections.abc import Callable, Mapping
from io import TextIOWrapper
from pathlib import Path

from dsh_core.cli.screen import bounded

SIZE_BYTES = 1_000_000
MESSAGE_LIMIT = 20_000
"""Characters of one message: a provider's whole error page need not fill the log."""
LOG_VARIABLE = "DSH_LOG"


def start_log(environ: Mapping[str, str], scrub: Callable[[str], str]) -> None:
    """Send the logger `dsh` to its file. A folder that cannot be written costs the file only."""
    logger = logging.getLogger("dsh")
    logger.propagate = False
    logging.raiseExceptions = False  # a log that cannot be written is no failure of the run
    logger.setLevel(logging.INFO)
    spoken = logging.StreamHandler(sys.stderr)
    spoken.setLevel(logging.ERROR)
    spoken.setFormatter(_Harmless("dsh: %(message)s", scrub))
    if logging.lastResort is not None:
        # What libraries say reaches the terminal too.
        logging.lastResort.setFormatter(_Harmless("%(message)s", scrub))
    handlers: list[logging.Handler] = [spoken]
    path = _path(environ)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not environ.get(LOG_VARIABLE, "").strip():
            path.parent.chmod(0o700)
        file = _PrivateFile(path, maxBytes=SIZE_BYTES, backupCount=1, encoding="utf-8", delay=True)
    except OSError as error:
        logger.handlers = handlers
        logger.error("no log is kept in %s: %s", path.parent, error.strerror)  # noqa: TRY400 - one line
        return
    file.setFormatter(_Harmless("%(asctime)s %(process)d %(levelname)s %(message)s", scrub))
    logger.handlers = [*handlers, file]


class _Harmless(logging.Formatter):
    """Writes records, tracebacks included, without what `scrub` takes out.

    Control characters are escaped and further lines indented: no message can pose as another one.
    """

    def __init__(self, form: str, scrub: Callable[[str], str]):
        super().__init__(form)
        self._scrub = scrub

    def format(self, record: logging.LogRecord) -> str:
        text = self._scrub(super().format(record))
        return bounded(text, MESSAGE_LIMIT).replace("\n", "\n    ")


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """A log for its owner's eyes: prompts, paths and what providers say stand in it."""

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(self.baseFilename, flags, 0o600)
        found = os.fstat(descriptor)
        # Only files: DSH_LOG may name a device, such as /dev/null.
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
        return open(descriptor, "a", encoding=self.encoding, errors="backslashreplace")


def _path(environ: Mapping[str, str]) -> Path:
    chosen = environ.get(LOG_VARIABLE, "").strip()
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_log_dir("dsh-core")) / "dsh.log"

"""The end of the process: in time, whatever threads are still running."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from types import TracebackType
from typing import Self

from dsh_core.cli.standard import lost_output

LINGER_SECONDS = 1.0
"""What threads that are no daemons get to finish: they may be writing something."""


class Leaving:
    """Around a program: when it ends, the process ends with `code` soon, its output written.

    The interpreter waits for threads without limit, and one that hangs in a daemon thread with a
    stream's lock crashes its shutdown. So threads get `LINGER_SECONDS`, functions of `atexit` run
    where no thread hangs, and then the process leaves, unless no thread is left anyway.
    """

    def __init__(self) -> None:
        self.code = 1
        self._watch: threading.Timer | None = None

    def __enter__(self) -> Self:
        atexit.register(self._last)  # registered first, called last
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if threading.active_count() == 1:
            return
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._watch = threading.Timer(LINGER_SECONDS, os._exit, (self.code,))
        self._watch.daemon = True
        self._watch.start()

    def _last(self) -> None:
        others = set(threading.enumerate()) - {threading.main_thread(), self._watch}
        if others:
            lost_output()
            os._exit(self.code)

"""Who holds the event loop: a thread that looks at what the loop's thread is doing."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

LIMIT_SECONDS = 0.05
"""As `dsh_core.hooks` has it: longer than this, a person sees the stream stutter."""
LOOK_EVERY_SECONDS = 0.005
CALLBACK = asyncio.Handle._run.__code__
"""Below this frame is one callback of the loop."""


class HeldLoop:
    """Remembers the lines of a plugin that were still running long after their callback began.

    Args:
        folder: Where the plugin's code is: a package's folder, or a file.

    Attributes:
        places: `file:line` → seconds, the longest each.

    """

    def __init__(self, folder: Path | None):
        self.places: dict[str, float] = {}
        self._folder = folder
        self._loop_thread = threading.get_ident()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, name="held-loop", daemon=True)

    def __enter__(self) -> Self:
        if self._folder is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def _look(self) -> None:
        callback: FrameType | None = None
        began = 0.0
        while not self._done.wait(LOOK_EVERY_SECONDS):
            now = time.perf_counter()
            frames = list(_outwards(sys._current_frames().get(self._loop_thread)))
            running = next((frame for frame in frames if frame.f_code is CALLBACK), None)
            if running is not callback:
                callback, began = running, now
            elif callback is not None and now - began > LIMIT_SECONDS:
                self._note(frames, now - began)

    def _note(self, frames: list[FrameType], seconds: float) -> None:
        """Note the function of the plugin that was called first: the same one each time."""
        place = None
        for frame in itertools.takewhile(lambda one: one.f_code is not CALLBACK, frames):
            path = Path(frame.f_code.co_filename)
            if self._folder in (path, *path.parents):
                place = f"{path.name}, {frame.f_code.co_name}"
        if place is not None:
            self.places[place] = max(seconds, self.places.get(place, 0.0))


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back

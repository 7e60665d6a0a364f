"""Server-sent events cut out of bytes, as the WHATWG defines them.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

Lines end with LF, CR or CRLF and nothing else: U+2028 and U+0085 are ordinary text, and so are
code points split over two reads, since nothing is decoded here. `event`, `id` and `retry` fields
and comments are dropped: chat protocols say all they have to say in `data`.
"""

from __future__ import annotations

import json

EVENT_LIMIT_BYTES = 16 * 1024 * 1024
"""The longest event. One may hold a whole answer: the largest that a provider documents is 128,000
tokens (https://platform.openai.com/docs/models/gpt-5), at four characters each, every one escaped
to six bytes, 3 MB. This is five times that; parsed, JSON may take thirty times its size."""

_BOM = b"\xef\xbb\xbf"
_FIELD = b"data: "
_LF, _CR = b"\n\r"


class OverlongError(ValueError):
    """More bytes without an end than anything real has."""


class SseDecoder:
    """Cuts one stream into the data of its events; how the stream was cut before is no matter.

    The data of an event is its `data` lines joined by LF, which may be empty.

    Args:
        limit_bytes: How much is held of an event that does not end.
    """

    __slots__ = ("_after_cr", "_begun", "_held", "_held_bytes", "_limit_bytes", "_plain")

    def __init__(self, limit_bytes: int = EVENT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: list[bytes] = []  # the pieces of the event that is not complete yet
        self._held_bytes = 0
        self._begun = False  # past the place where a byte order mark may stand
        self._after_cr = False  # the last byte was a CR, so a first LF belongs to it
        self._plain = False  # begun and not after a CR: the common case in one look

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the data of the events that they complete, in order.

        Raises `OverlongError` when an event does not end within the limit.
        """
        if not self._plain or _CR in data:
            data = self._normalise(data)
        if not data:
            return []
        held = self._held
        if not held and data.find(_LF) == len(data) - 2 and data[-1] == _LF and data[:6] == _FIELD:
            return [data[6:-2]]  # one whole event of one line, as most servers send
        if held:
            ended = b"\n\n" in data or (data[0] == _LF and held[-1][-1] == _LF)
            held.append(data)
            if not ended:
                self._held_bytes += len(data)
                if self._held_bytes > self._limit_bytes:
                    raise OverlongError(f"an event of more than {self._limit_bytes} bytes")
                return []
            data = b"".join(held)
            held.clear()
        events = data.split(b"\n\n")
        if rest := events.pop():
            held.append(rest)
            self._held_bytes = len(rest)
        found = []
        for event in events:
            if event[:6] == _FIELD and _LF not in event:
                found.append(event[6:])
            elif (payload := _data_of(event)) is not None:
                found.append(payload)
        return found

    def finish(self) -> list[bytes]:
        """Take a clean end of the stream; return the data of a last event, if it counts.

        The WHATWG drops an event without its blank line. Many servers leave out the last one, so
        the event counts where its data is a whole JSON object, which no cut can make by chance.
        """
        payload = _data_of(b"".join(self._held))
        self._held.clear()
        return [payload] if payload is not None and _is_json_object(payload) else []

    def _normalise(self, data: bytes) -> bytes:
        """Drop the byte order mark and turn line ends into LF, across cuts."""
        if not self._begun:
            data = b"".join((*self._held, data))
            self._held.clear()
            if len(data) < len(_BOM) and _BOM.startswith(data):
                if data:
                    self._held.append(data)
                return b""
            self._begun = True
            data = data.removeprefix(_BOM)
        if data:
            ends_with_cr = data[-1:] == b"\r"
            if self._after_cr and data[:1] == b"\n":
                data = data[1:]
            self._after_cr = ends_with_cr
        self._plain = not self._after_cr
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data_of(event: bytes) -> bytes | None:
    """Join the data lines of one event; None where it has none."""
    lines = []
    for line in event.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
    return b"\n".join(lines) if lines else None


def _is_json_object(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False

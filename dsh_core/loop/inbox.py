"""What waits for an agent: queued messages for the next turn, steering for the running one."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import field

from dsh_core.content import Block
from dsh_core.messages import Source
from dsh_core.record import record

_arrivals = itertools.count()


@record()
class Queued:
    """One accepted message."""

    content: tuple[Block, ...]
    source: Source
    id: str = field(default_factory=lambda: os.urandom(16).hex())
    arrival: int = field(default_factory=lambda: next(_arrivals))


class Inbox:
    """Two first-in first-out lists, and what is parked because its turn could not start."""

    __slots__ = ("_parked", "queued", "steering")

    def __init__(self) -> None:
        self.queued: list[Queued] = []
        self.steering: deque[Queued] = deque()
        self._parked: list[Queued] = []

    def drain_queued(self) -> list[Queued]:
        """Take everything for the next turn, parked messages first."""
        taken = [*self._parked, *self.queued]
        self._parked.clear()
        self.queued.clear()
        return taken

    def requeue(self, messages: Iterable[Queued]) -> None:
        """Queue what found no place in a turn, in the order in which it arrived."""
        self.queued = sorted([*self.queued, *messages], key=lambda message: message.arrival)

    def requeue_steering(self) -> None:
        """Steering that found no step to join becomes ordinary messages."""
        if self.steering:
            self.requeue(self.steering)
            self.steering.clear()

    def park(self, messages: Iterable[Queued]) -> None:
        """Keep messages whose turn could not start until the next one comes."""
        self._parked.extend(messages)

    def withdraw(self, message_id: str) -> bool:
        """Take a message back; False when it is not waiting any more."""
        for waiting in (self.queued, self.steering, self._parked):
            for message in waiting:
                if message.id == message_id:
                    waiting.remove(message)
                    return True
        return False

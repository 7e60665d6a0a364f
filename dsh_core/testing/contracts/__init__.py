"""What dsh expects of a tool, a policy, a store, an adapter, a command: tests to subclass.

::

    class TestWordCount(ToolContract):
        name = "word_count"
        arguments = {"text": "so it goes"}

        def plugin(self):
            return Words()

Every contract runs its own event loop, so any runner of tests fits. Its class attributes say what
the tests need to know; what a subclass leaves out is not tested.
"""

from __future__ import annotations

from dsh_core.testing.contracts.adapters import AdapterContract
from dsh_core.testing.contracts.commands import CommandContract
from dsh_core.testing.contracts.policies import PolicyContract
from dsh_core.testing.contracts.stores import StoreContract
from dsh_core.testing.contracts.tools import ToolContract

__all__ = [
    "AdapterContract",
    "CommandContract",
    "PolicyContract",
    "StoreContract",
    "ToolContract",
]

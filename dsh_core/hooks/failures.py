"""What the implementations of one call raised: the first takes effect, the rest is reported."""

from __future__ import annotations

from typing import TypeAlias

from dsh_core.errors import PluginError
from dsh_core.hooks.blame import as_plugin_error, is_stop, raise_blamed
from dsh_core.hooks.chain import Chain, Implementation, Values
from dsh_core.hooks.waterfall import Reports
from dsh_core.marks import OnError

Failure: TypeAlias = tuple[Implementation, BaseException]


class Failures:
    """Contains what implementations raise, by the hook's policy."""

    __slots__ = ("_chain", "_first", "_reports", "_values")

    def __init__(self, chain: Chain, values: Values, reports: Reports):
        self._chain = chain
        self._values = values
        self._reports = reports
        self._first: Failure | None = None

    def add(self, implementation: Implementation, error: BaseException) -> None:
        """Contain a failure. A requested cancellation and Ctrl-C are raised again at once."""
        if is_stop(error):
            self.stop(error)
        if self._first is None and self._chain.mode.on_error is not OnError.REPORT:
            self._first = implementation, error
        else:
            self._report(implementation, error)

    def stop(self, error: BaseException) -> None:
        """Raise what ends the call early; the failure that waited to be raised is reported."""
        if self._first is not None:
            self._report(*self._first)
        raise error

    def take_effect(self) -> None:
        """Raise the first failure, if the policy wants one raised."""
        if self._first is not None:
            implementation, error = self._first
            raise_blamed(implementation, error, self._chain.mode.on_error)

    def _report(self, implementation: Implementation, error: BaseException) -> None:
        named: PluginError = as_plugin_error(implementation, error)
        self._reports.report(named, self._values)

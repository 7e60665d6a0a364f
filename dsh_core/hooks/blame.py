"""Who raised: turning what escapes from a plugin into an error that names it."""

from __future__ import annotations

import asyncio

from dsh_core.errors import LlmFailure, PluginError, UserError, error_chain


def is_stop(error: BaseException) -> bool:
    """Whether an exception must travel on at once: Ctrl-C, or a cancellation someone asked for.

    A `CancelledError` in a task that nobody cancelled is a plugin's fault, as `SystemExit` is.
    """
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        return True
    return isinstance(error, asyncio.CancelledError) and cancel_requested()


def cancel_requested() -> bool:
    """Whether somebody cancelled the running task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def blamed(plugin: str, hook: str, error: BaseException) -> BaseException:
    """Return the error to raise for what `plugin` raised in `hook`.

    Failures that are already in the user's words stay themselves.
    """
    if isinstance(error, (UserError, LlmFailure, PluginError)):
        return error
    named = PluginError(plugin, hook, error_chain(error))
    named.__cause__ = error
    return named


def as_plugin_error(plugin: str, hook: str, error: BaseException) -> PluginError:
    """Like `blamed`, for reports, which always name the plugin."""
    if isinstance(error, PluginError):
        return error
    named = PluginError(plugin, hook, error_chain(error))
    named.__cause__ = error
    return named

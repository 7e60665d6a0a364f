"""The five tools as the model sees them; each finds its path and hands on to its module."""

# ruff: noqa: D417 - these docstrings are for the model, which does not see `ctx`
from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from dsh_core import Tool, ToolContext, ToolError, ToolOutput, is_hidden, tool
from dsh_files.edit import edit_file
from dsh_files.failure import shown
from dsh_files.glob import Search, find_files
from dsh_files.grep import find_lines
from dsh_files.observation import PathLocks, observations_of
from dsh_files.read import Range, read_file
from dsh_files.settings import Settings
from dsh_files.workspace import Target, Workspace
from dsh_files.write import write_file

ENVELOPE_BYTES = 16 * 1024
"""Room for the path and the notes around the lines that `read` returns."""


class FileTools:
    """The tools, with the settings they share and the locks of paths being written."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._locks = PathLocks()

    def all(self) -> tuple[Tool, ...]:
        """Return the tools. What `read` returns is bounded already and never spilled."""
        limit_bytes = self._settings.read_limit_bytes + ENVELOPE_BYTES
        read = replace(self.read, inline_limit_bytes=limit_bytes)
        return (read, self.write, self.edit, self.glob, self.grep)

    @tool(read_only=True)
    def read(self, file_path: str, offset: int = 1, limit: int = 2000, *, ctx: ToolContext) -> str:
        """Read a text file. Returns numbered lines (`N: text`) and says what was left out.

        Args:
            file_path: File to read, absolute or relative to the working directory.
            offset: Number of the first line to return, from 1.
            limit: How many lines to return.
        """
        return read_file(
            self._target(ctx, file_path, "read"),
            Range(offset, limit),
            observations=observations_of(ctx.agent),
            settings=self._settings,
            spill_dir=ctx.spill_dir,
            cancelled=ctx.cancelled,
        )

    @tool
    def write(self, file_path: str, content: str, *, ctx: ToolContext) -> ToolOutput:
        """Create a file, with its folders, or replace all of a file. Prefer edit for changes.

        An existing file must have been read first, and not have changed since.

        Args:
            file_path: File to write, absolute or relative to the working directory.
            content: The whole new content.
        """
        target = self._target(ctx, file_path, "write")
        with self._locks.held(target.path):
            return write_file(
                target,
                content,
                observations=observations_of(ctx.agent),
                settings=self._settings,
                cancelled=ctx.cancelled,
            )

    @tool
    def edit(
        self,
        file_path: str,
        old_string: str,
        new_string: str,
        replace_all: bool = False,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Replace exact text in a file that was read before.

        old_string must occur exactly once, unless replace_all is set. Copy it from what read
        showed, without the line numbers. Line endings and encoding stay as they are.

        Args:
            file_path: File to change, absolute or relative to the working directory.
            old_string: Text to replace, with its indentation.
            new_string: Text to put in its place; must differ.
            replace_all: Replace every occurrence.
        """
        target = self._target(ctx, file_path, "write")
        with self._locks.held(target.path):
            return edit_file(
                target,
                old_string,
                new_string,
                replace_all=replace_all,
                observations=observations_of(ctx.agent),
                settings=self._settings,
                cancelled=ctx.cancelled,
            )

    @tool(read_only=True)
    def glob(self, pattern: str, path: str | None = None, *, ctx: ToolContext) -> ToolOutput:
        """List files by name, newest first; ignored and hidden ones too.

        Args:
            pattern: Glob such as `*.py` (at any depth), `src/**/*.{ts,tsx}` or `docs/*.md`.
            path: Folder to search; the working directory by default.
        """
        search = Search.of(pattern, path)
        return find_files(
            self._target(ctx, search.folder, "read"),
            search,
            workspace=self._workspace(ctx),
            settings=self._settings,
            cancelled=ctx.cancelled,
        )

    @tool(read_only=True)
    def grep(
        self, pattern: str, path: str | None = None, include: str | None = None, *, ctx: ToolContext
    ) -> ToolOutput:
        """Search file contents line by line with a regular expression (ripgrep's syntax).

        Leaves out binary files and what .gitignore names.

        Args:
            pattern: Regular expression; escape `(`, `[`, `{`, `.` to find them literally.
            path: File or folder to search; the working directory by default.
            include: Only files that match this glob, such as `*.py` or `*.{ts,tsx}`.
        """
        return find_lines(
            self._target(ctx, path or ".", "read"),
            pattern,
            include,
            workspace=self._workspace(ctx),
            settings=self._settings,
            cancelled=ctx.cancelled,
        )

    def _workspace(self, ctx: ToolContext) -> Workspace:
        hides = partial(is_hidden, ctx.agent)
        return Workspace(ctx.cwd, self._settings.allow, ctx.readable_roots, hides)

    def _target(self, ctx: ToolContext, written: str, kind: Literal["read", "write"]) -> Target:
        """Resolve a path and hold it against what policy judged: a link may have moved since."""
        workspace = self._workspace(ctx)
        target = workspace.readable(written) if kind == "read" else workspace.writable(written)
        judged = {effect.target for effect in ctx.call.effects if effect.kind == kind} - {None}
        if judged and str(target.path) not in judged:
            raise ToolError(
                f"{shown(written)} leads elsewhere than when the call was judged. Try again.",
                code="FS_PATH_CHANGED",
            )
        return target

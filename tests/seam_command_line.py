"""The path of `dsh run --json`, in this process: the command itself, and what it prints."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from seam_stage import GO, Stage, lines_of

from dsh_core import Harness, HarnessConfig, HarnessError, to_json
from dsh_core.cli import run as dsh_run
from dsh_core.cli.context import CliContext
from dsh_core.events import Completed, TurnEnd


class Json(Stage):
    """`dsh run --json`, in this process."""

    is_alone: ClassVar = True

    def play(self) -> Self:
        command_line = Staged("run", stage=self)
        with tempfile.TemporaryFile("w+") as file:
            with lines_of("dsh", self.lines), standard_output(file.fileno()):
                try:
                    self.exit_code = dsh_run.command(["--json", "--quiet", GO], command_line)
                except HarnessError as error:
                    self.raised = error
            file.seek(0)
            self.printed = [json.loads(line) for line in file]
        self.keep_log()
        self.check_output()
        return self

    def check_output(self) -> None:
        """What was logged is printed, and how it ended."""
        events = [line for line in self.printed if "seq" in line]
        assert events == [event.to_json() for event in self.log]
        last = self.printed[-1]
        if self.raised is not None:
            assert last["type"] == "dsh/error"
            return
        end = self.logged(TurnEnd)[-1]
        assert (self.exit_code == 0) is (end.reason == Completed())
        assert (last["type"], last["reason"]) == ("dsh/result", to_json(end.reason))


@contextmanager
def standard_output(to: int) -> Iterator[None]:
    """Let file descriptor 1 lead elsewhere."""
    kept = os.dup(1)
    os.dup2(to, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@dataclass
class Staged(CliContext):
    """A command line that finds the plugins of a stage."""

    stage: Any = None

    def config(self) -> HarnessConfig:
        return self.stage.config()

    def build(self, *, plugins: Mapping[str, object] | None = None, trace: bool = False) -> Harness:
        self.stage.harness = harness = self.stage.build(**(plugins or {}))
        harness.load()
        return harness

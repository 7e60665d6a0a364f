"""A workspace with links, a home beside it, and the decision about a call in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dsh_permission.findings import Judgement
from dsh_permission.judge import Judge
from dsh_permission.policy import Mode, Policy, Rules
from dsh_permission.rule import rule_from

ARGUMENTS = {"bash": "command", "web_fetch": "url", "grep": "path", "glob": "path"}


class Place:
    """The folders of one test, and judging in them."""

    def __init__(self, top: Path):
        self.top = Path(os.path.realpath(top))
        self.workspace = self.top / "ws"
        self.home = self.top / "home"
        for folder in (self.workspace / "src", self.workspace / ".git", self.home):
            folder.mkdir(parents=True)
        for name in ("a", ".env", "src/a.py"):
            (self.workspace / name).write_text("x")
        links = {"link": "/etc/passwd", "src/out": "/etc", "loop": "loop", "inlink": "src",
                 "envlink": ".env"}  # fmt: skip
        for name, target in links.items():
            (self.workspace / name).symlink_to(target)
        os.link(self.workspace / ".env", self.workspace / "envhard")

    def filled(self, text: str) -> str:
        """Put the real folders into a text."""
        return text.replace("@WS@", str(self.workspace)).replace("@TOP@", str(self.top))

    def policy(
        self, rules: Mapping[str, Sequence[Any]] | None = None, mode: Mode = "default", **more: Any
    ) -> Policy:
        """Return a policy of rules as YAML has them."""
        lists = {
            name: tuple(rule_from(item, where="test.yaml:1") for item in items)
            for name, items in (rules or {}).items()
        }
        return Policy(Rules(**lists), self.workspace, self.home, mode, **more)

    def judge(
        self,
        what: str,
        rules: Mapping[str, Sequence[Any]] | None = None,
        mode: Mode = "default",
        tool: str = "bash",
        **more: Any,
    ) -> Judgement:
        """Judge a call by its one argument."""
        arguments = {ARGUMENTS.get(tool, "file_path"): self.filled(what)}
        return Judge(self.policy(rules, mode, **more)).call(tool, arguments)

    def decision(self, what: str, *args: Any, **options: Any) -> str:
        """Return allow, ask or deny."""
        return self.judge(what, *args, **options).decision

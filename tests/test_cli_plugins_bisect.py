"""`dsh plugins bisect` finds the plugin, or the few together, that break a run."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from distributions import distribution
from program import Shell

from dsh_core.cli.plugins_bisect import smallest

NAMES = [f"p{number}" for number in range(16)]


@pytest.mark.parametrize(
    "guilty", [["p0"], ["p15"], ["p7"], ["p0", "p15"], ["p3", "p4"], ["p1", "p6", "p11"], NAMES]
)
def test_the_smallest_part_that_fails_is_found(guilty: list[str]) -> None:
    asked: list[Sequence[str]] = []

    def fails_with(names: Sequence[str]) -> bool:
        asked.append(names)
        return set(guilty) <= set(names)

    assert smallest(NAMES, fails_with) == guilty
    assert len(asked) <= 8 if len(guilty) == 1 else len(asked) <= 150


def with_plugins(dsh: Shell, **sources: str) -> Shell:
    for name, source in sources.items():
        distribution(
            dsh.work / "site", f"dsh-{name}", {name: f"{name}_plugin"}, **{f"{name}_plugin": source}
        )
    dsh.env["PYTHONPATH"] = str(dsh.work / "site")
    provider = {"adapter": "scripted", "replies": ["Done."], "models": {"m": {}}}
    dsh.write("dsh.json", json.dumps({"providers": {"offline": provider}}))
    return dsh


GOOD = "from dsh_core import hookimpl\n@hookimpl\nasync def agent_turn_start(): ...\n"
BAD = GOOD.replace("...", "raise ValueError('no')")


def test_the_plugin_that_breaks_a_run_is_named(dsh: Shell) -> None:
    with_plugins(dsh, fine=GOOD, broken=BAD)

    done = dsh("plugins", "-c", "dsh.json", "bisect", "--", "run", "Go.")

    assert done.returncode == 0, done.stderr
    assert done.stdout == "it fails with broken, and not without\n"


def test_what_does_not_fail_or_fails_anyway_is_said(dsh: Shell) -> None:
    with_plugins(dsh, fine=GOOD)

    works = dsh("plugins", "-c", "dsh.json", "bisect", "--", "run", "Go.")
    fails = dsh("plugins", "-c", "dsh.json", "bisect", "--", "run", "--no-such-option", "Go.")
    nothing = dsh("plugins", "bisect")

    assert (works.returncode, works.stdout) == (1, "it does not fail\n")
    assert (fails.returncode, "not a plugin" in fails.stdout) == (1, True)
    assert (nothing.returncode, "which command?" in nothing.stderr) == (2, True)

"""What bash runs was foreseen: random scripts are run for real, with stubs, and judged.

`make fuzz` runs many more (`DSH_FUZZ_SCRIPTS`), from another seed each time (`DSH_FUZZ_SEED`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from shell_scripts import Scripts, Stage

from dsh_permission.judge import Judge
from dsh_permission.policy import Policy, Rules
from dsh_permission.rule import parse_rule

SCRIPTS = int(os.environ.get("DSH_FUZZ_SCRIPTS", "300"))
SEED = int(os.environ.get("DSH_FUZZ_SEED", "20240229"))
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_what_a_script_runs_or_changes_was_foreseen(tmp_path: Path, part: int) -> None:
    """No script that ran a denied program is allowed, and none that ran or changed anything is
    allowed without a rule."""
    stage = Stage(tmp_path)
    scripts = Scripts(SEED * PARTS + part)
    ran = 0
    for _ in range(SCRIPTS // PARTS):
        script = scripts.script()
        outcome = stage.run(script)
        ran += bool(outcome.ran)
        for name in outcome.ran:
            rules = Rules(allow=(parse_rule("Bash"),), deny=(parse_rule(f"Bash({name}:*)"),))
            assert decision(stage, rules, script) != "allow", f"{name} ran in {script!r}"
        if outcome.ran or outcome.changed:
            said = f"{sorted(outcome.ran)} ran, {sorted(outcome.changed)} changed in {script!r}"
            assert decision(stage, Rules(), script) != "allow", said

    assert ran > SCRIPTS // PARTS // 4, "the scripts run too little to show anything"


def decision(stage: Stage, rules: Rules, script: str) -> str:
    policy = Policy(rules, stage.work, stage.work)
    return Judge(policy).call("bash", {"command": script}).decision

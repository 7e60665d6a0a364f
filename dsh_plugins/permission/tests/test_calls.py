"""Tables of decisions: each call of `cases/calls.yaml` gets the answer that stands there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from stage import Place

TABLES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "cases/calls.yaml").read_text(encoding="utf-8")
)
CORPUS = os.environ.get("DSH_PERMISSION_CORPUS")


def name_of(table: dict[str, Any]) -> str:
    rules = json.dumps(table.get("rules", {})).replace("/", "")
    return f"{table['want']}-{table.get('tool', 'bash')}-{table.get('mode', 'default')}-{rules}"


@pytest.mark.parametrize("table", TABLES, ids=name_of)
def test_each_call_gets_its_answer(table: dict[str, Any], place: Place) -> None:
    options = {"mode": table.get("mode", "default"), "tool": table.get("tool", "bash")}
    wrong = []
    for call in table["calls"]:
        found = place.judge(call, table.get("rules"), **options)
        if found.decision != table["want"]:
            wrong.append((call, found.decision, [finding.why for finding in found.deciding]))

    assert wrong == []


@pytest.mark.skipif(CORPUS is None, reason="DSH_PERMISSION_CORPUS names no runner of a corpus")
def test_a_corpus_from_outside_is_decided_as_it_says() -> None:
    assert CORPUS is not None
    command = f"{Path(sys.executable).parent / 'dsh'} permission check"
    done = subprocess.run(
        [sys.executable, CORPUS, "--cmd", command], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout

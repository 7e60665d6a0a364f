"""What the tests of the permission plugin share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from stage import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "place")

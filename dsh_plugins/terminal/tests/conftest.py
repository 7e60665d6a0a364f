"""A folder and a home for `dsh`."""

from __future__ import annotations

from pathlib import Path

import pytest
from person import shell
from program import Shell


@pytest.fixture
def dsh(tmp_path: Path) -> Shell:
    return shell(tmp_path)

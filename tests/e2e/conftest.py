"""The user of every end-to-end test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_yard import Yard


@pytest.fixture
def yard(tmp_path: Path, root: Path) -> Iterator[Yard]:
    made = Yard(tmp_path, root)
    yield made
    made.close()

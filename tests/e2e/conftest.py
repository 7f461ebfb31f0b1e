# SPDX-License-Identifier: Apache-2.0
"""The user of every end-to-end test, and the browser of those that read pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e_yard import Yard


@pytest.fixture
def yard(tmp_path: Path, root: Path) -> Iterator[Yard]:
    made = Yard(tmp_path, root)
    yield made
    made.close()


QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def chromium(browser: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=QUIET)
        yield started
        started.close()

# SPDX-License-Identifier: Apache-2.0
"""What every test of the lab can rely on: the checkout, the on-request rule, the browser."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from heapyard.model import places

os.environ["TERM"] = "xterm-256color"  # what tests say of colour must not hang on the terminal they are started from
# What a test sends a process must reach it, also where the tests run under nohup or in the background.
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["HEAPYARD_OFFLINE"] = "1"  # no test may build allocators from sources that a network must bring

ROOT = Path(__file__).resolve().parents[1]
# The last one is what set-up fetches where the distribution has none (setup/browser.sh).
FETCHED = str(places.state() / "browser" / "chromium")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", FETCHED)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--on-request", action="store_true", help="also run the long measurements of this machine")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--on-request"):
        return
    for item in items:
        if item.get_closest_marker("on_request"):
            item.add_marker(pytest.mark.skip(reason="only on request: pass --on-request"))  # worded for setup/closing_line.py


def pytest_collection_finish() -> None:
    """What was collected stays to the end: no collection of garbage goes through thousands of tests again."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # some libraries complain of objects that are left


@pytest.fixture(autouse=True)
def no_launcher_left() -> Iterator[None]:
    """The lab knows of no launcher that has ended: its number may be another process's by then."""
    yield
    module = sys.modules.get("heapyard.execute.launcher")
    left = set(module.Running.at_work) if module else set()
    if module and left:
        module.Running.at_work.clear()  # the next test is not to blame
    assert not left


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout the tests belong to."""
    return ROOT


@pytest.fixture(scope="session")
def browser() -> str:
    """Path of a Chrome or Chromium that starts; Ubuntu's package is a mere pointer to a snap, which may not."""
    tried = []
    for name in BROWSERS:
        path = shutil.which(name)
        if path is None:
            continue
        version = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
        if version.returncode == 0:
            return path
        tried.append(f"{path} does not start ({version.stderr.strip() or version.stdout.strip()})")
    pytest.fail(
        "the report's tests need a browser: put Chromium or Google Chrome in PATH; looked for "
        + ", ".join(BROWSERS) + "".join(f"; {fault}" for fault in tried)
    )

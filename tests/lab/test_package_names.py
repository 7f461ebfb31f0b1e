# SPDX-License-Identifier: Apache-2.0
"""On request: this distribution has every package that the project names. Run it on Debian 12, and on Ubuntu 24.04.

    .heapyard/venv/bin/python -I -m pytest --on-request tests/lab/test_package_names.py

It asks the index of the system's own apt, as the last `apt-get update` left it.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest
from heapyard.catalog import debian
from heapyard.catalog.programs import load_programs
from heapyard.catalog.soak_suites import find_suites
from heapyard.catalog.toml_file import read_toml
from heapyard.model import places

pytestmark = [
    pytest.mark.on_request,
    pytest.mark.skipif(shutil.which("apt-cache") is None, reason="apt names packages on Debian and Ubuntu alone"),
]


def listed(name: str) -> list[str]:
    """Entries of a list of setup/, without those that a distribution may lack (?)."""
    lines = (line.partition("#")[0].strip() for line in (places.root() / "setup" / name).read_text().splitlines())
    return [line for line in lines if line and not line.startswith("?")]


def absent(entries: list[str]) -> list[str]:
    return [entry for entry in entries if entry not in debian.candidates(entries)]


def test_the_index_is_there() -> None:
    """Otherwise nothing would be found, whatever its name; and a name that nobody has is not found."""
    assert absent(["libc6"]) == [] and absent(["libc6-that-is-not"]) == ["libc6-that-is-not"]
    release = subprocess.run(["sh", "-c", ". /etc/os-release; echo $PRETTY_NAME"], capture_output=True, text=True, check=True)
    print(f"packages of {release.stdout.strip()}")


@pytest.mark.parametrize("name", ["debian-packages", "debian-packages-test"])
def test_what_the_setup_installs(name: str) -> None:
    assert listed(name) and absent(listed(name)) == []


def test_what_programs_need() -> None:
    missing = {card.name: lacking for card in load_programs().values() if (lacking := absent(list(card.packages)))}
    assert missing == {}


def test_what_test_suites_need() -> None:
    missing = {suite.name: lacking for suite in find_suites(()) if (lacking := absent(list(suite.packages)))}
    assert missing == {}


def test_what_allocators_come_from() -> None:
    """One of the packages of each is enough."""
    cards = {path.stem: read_toml(path).strings("packages", ()) for path in sorted((places.root() / "peers").glob("*.toml"))}
    assert [name for name, packages in cards.items() if packages and absent(["|".join(packages)])] == []

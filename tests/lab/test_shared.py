# SPDX-License-Identifier: Apache-2.0
"""What native parts and the lab agree on stands in base/shared.toml, and what is made of it is what it says."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from heapyard.model import shared

ROOT = Path(__file__).resolve().parents[2]
MADE = ("base/shared.hpp", "lab/heapyard/model/shared.py")


def facts() -> dict:
    return tomllib.loads((ROOT / "base" / "shared.toml").read_text())


def check(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-I", root / "base" / "write_shared.py", "--check"], capture_output=True, text=True)


def copy(folder: Path) -> Path:
    for name in ("base/shared.toml", "base/write_shared.py", *MADE):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text((ROOT / name).read_text())
    return folder


def test_both_sides_are_as_the_schema_says() -> None:
    done = check(ROOT)
    assert done.returncode == 0, done.stderr


def test_a_side_that_drifts_is_named(tmp_path: Path) -> None:
    copy(tmp_path)
    assert check(tmp_path).returncode == 0
    for name in MADE:
        kept = (tmp_path / name).read_text()
        (tmp_path / name).write_text(kept.replace("HYCK", "HYCX"))
        done = check(tmp_path)
        assert done.returncode == 1 and done.stderr.strip() == f"{name} is not what base/shared.toml says"
        (tmp_path / name).write_text(kept)


def test_the_lab_reads_what_the_schema_says() -> None:
    said = facts()
    assert {name: getattr(shared, name) for name in said["constants"]} == {
        name: fact["value"] for name, fact in said["constants"].items()
    }
    for name, fact in said["enumerations"].items():
        assert {one.name: one.value for one in getattr(shared, name)} == {key: value for key, value, _ in fact["values"]}


def test_nobody_writes_a_shared_word_out_again() -> None:
    """Only the two files that are made hold these words as literals; tests may."""
    words = {fact["value"].strip() for fact in facts()["constants"].values() if isinstance(fact["value"], str)}
    literals = re.compile("|".join(rf'"\*?{re.escape(word)}(?:\\n)?"' for word in words))
    again = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for folder in ("tracer", "lab") for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".cpp", ".hpp"}
        if str(path.relative_to(ROOT)) not in MADE and (found := literals.findall(path.read_text()))
    ]
    assert again == []

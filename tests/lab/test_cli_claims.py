# SPDX-License-Identifier: Apache-2.0
"""`heapyard claims`: the newest experiment of each study, and what it says of the literature."""

from __future__ import annotations

import json
from pathlib import Path

from test_cli_plan import write
from yard import FakeLaunch

CLAIMS = """
[[claims]]
text = "the copy is faster"
source = "a paper"
kind = "faster_than"
metric = "wall"
treatments = ["copy"]
"""


def run(heapyard, folder: Path, two: list[str], name: str, launch: FakeLaunch, claims: str = CLAIMS) -> None:
    path = write(folder, f"{name}.toml", two, title=name)
    path.write_text(path.read_text() + claims)
    assert heapyard("run", str(path), "--scale", "large", "--no-html", launch=launch).code == 0


def test_the_scoreboard_is_that_of_the_newest_experiments(heapyard, two: list[str], tmp_path: Path) -> None:
    quiet = {"noise": 0.001}
    run(heapyard, tmp_path / "s", two, "one", FakeLaunch(ratios={"copy": 2.0}, **quiet))
    run(heapyard, tmp_path / "s", two, "one", FakeLaunch(ratios={"copy": 0.5}, **quiet))
    run(heapyard, tmp_path / "s", two, "two", FakeLaunch(ratios={"copy": 2.0}, **quiet))
    run(heapyard, tmp_path / "s", two, "none", FakeLaunch(), claims="")
    said = heapyard("claims")
    assert said.code == 0 and said.out.startswith("2 studies: 1 of 2 claims hold here, 1 does not.\n")
    assert "+ holds" in said.out and "- does not hold" in said.out and "a paper" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    every = json.loads(heapyard("claims", "--all", "--json").out)
    assert sorted(e["claims"][0]["verdict"] for e in every) == ["does not hold", "does not hold", "holds"]
    named = json.loads(heapyard("claims", every[0]["experiment"], "--json").out)
    assert len(named) == 1 and named[0]["study"] == every[0]["study"]


def test_an_interrupted_run_does_not_hide_a_finished_one(heapyard, two: list[str], tmp_path: Path) -> None:
    run(heapyard, tmp_path / "s", two, "one", FakeLaunch(ratios={"copy": 0.5}, noise=0.001))
    cut = heapyard("run", str(tmp_path / "s" / "one.toml"), "--scale", "large", "--no-html", launch=FakeLaunch(stop_after=3))
    assert cut.code == 130
    assert heapyard("claims").out.startswith("1 study: 1 of 1 claim holds here.")
    assert len(json.loads(heapyard("claims", "--all", "--json").out)) == 2


def test_without_claims_it_says_how_to_get_some(heapyard, tmp_path: Path) -> None:
    said = heapyard("claims")
    assert said.code == 0 and said.out == "" and "heapyard run studies/acdc" in said.err

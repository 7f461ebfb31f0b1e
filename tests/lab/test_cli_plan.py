# SPDX-License-Identifier: Apache-2.0
"""`heapyard plan` and folders of studies: what is said before anything is measured, and what is run in which order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from yard import FakeLaunch

from heapyard import store

STUDY = """
[study]
title = "{title}"
programs = ["mine", "other"]
allocators = ["glibc", "copy"]
{more}

[program.mine]
command = ["/bin/true"]

[program.other]
command = ["/bin/echo", "a"]

[allocator.copy]
library = "libcopy.so"

[scales.small]
study = {{ blocks = 3 }}

[scales.large]
study = {{ blocks = 5 }}
"""


def write(folder: Path, name: str, two: list[str], title: str = "a study", more: str = "") -> Path:
    copy = two[-1].partition("=")[2]
    folder.mkdir(exist_ok=True)
    link = folder / "libcopy.so"
    if not link.exists():
        link.symlink_to(copy)
    path = folder / name
    path.write_text(STUDY.format(title=title, more=more))
    return path


def test_a_plan_says_trials_duration_and_what_can_be_found(heapyard, two: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "s", "one.toml", two)
    said = heapyard("plan", str(path), "--scale", "large", "--json", launch=FakeLaunch(noise=0.02))
    assert said.code == 0, said.err
    plan = json.loads(said.out)
    assert plan["treatments"] == ["glibc", "copy", "glibc (A/A control)"]
    assert [w["workload"] for w in plan["workloads"]] == ["mine", "other"]
    for workload in plan["workloads"]:
        assert workload["blocks"] == 5
        # Five blocks at 2 % noise: between one and ten times the noise, whatever the pilot's luck.
        assert 0.5 * workload["time_noise"] < workload["time_difference"] < 10 * workload["time_noise"]
    assert not (tmp_path / "results").exists(), "a pilot is not an experiment"


def test_more_blocks_find_less(heapyard, two: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "s", "one.toml", two, more="seed = 5")
    small, large = (
        json.loads(heapyard("plan", str(path), "--scale", s, "--json", launch=FakeLaunch(seed=4)).out)["workloads"][0]
        for s in ("small", "large")
    )
    assert small["time_noise"] == large["time_noise"] and small["time_difference"] > large["time_difference"]


def test_without_a_pilot_nothing_runs(heapyard, two: list[str], tmp_path: Path) -> None:
    launch = FakeLaunch()
    said = heapyard("plan", str(write(tmp_path / "s", "one.toml", two)), "--no-pilot", launch=launch)
    assert said.code == 0 and not launch.calls
    assert "mine" in said.out and "without a pilot" in said.err
    assert max(map(len, said.out.splitlines())) <= 80


def test_a_folder_is_run_study_by_study_and_goes_on_where_it_was_left(
    heapyard, two: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "suite"
    for number in (1, 2, 3):
        write(folder, f"{number}.toml", two, title=f"study {number}")
    interrupted = heapyard("run", str(folder), "--scale", "small", "--no-html", launch=FakeLaunch(stop_after=25))
    assert interrupted.code == 130 and "--resume" in interrupted.err
    said = heapyard("run", str(folder), "--scale", "small", "--resume", "--no-html")
    assert said.code == 0, said.err
    listed = sorted(store.list_records(tmp_path / "results"), key=lambda r: r.title)
    assert [(r.title, r.status, r.done) for r in listed] == [(f"study {n}", "finished", 6) for n in (1, 2, 3)]
    assert len({r.suite for r in listed}) == 1 and listed[0].suite.startswith("suite small ")


def test_a_folder_gives_one_page_over_all_studies(heapyard, two: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    for number in (1, 2):
        write(folder, f"{number}.toml", two, title=f"study {number}")
    said = heapyard("run", str(folder), "--scale", "small")
    assert said.code == 0, said.err
    (page,) = (tmp_path / "results").glob("suite-small-*.html")
    text = page.read_text()
    assert text.index("study 1") < text.index("study 2") and str(page) in said.err.replace("\n", "")


@pytest.mark.parametrize(
    "arrange, complaint",
    [
        (lambda folder, two: None, "no study file in this folder"),
        (lambda folder, two: [write(folder, f"{n}.toml", two) for n in (1, 2)], "two studies have the title"),
        (lambda folder, two: (folder / "1.toml").write_text("[study]\nblocks = 0"), "1.toml:2: field 'study.blocks'"),
    ],
)
def test_a_folder_that_makes_no_sense_is_one_sentence(  # type: ignore[no-untyped-def]
    heapyard, two: list[str], tmp_path: Path, arrange, complaint: str
) -> None:
    folder = tmp_path / "suite"
    folder.mkdir()
    arrange(folder, two)
    said = heapyard("run", str(folder))
    assert said.code == 2 and complaint in said.err.replace("\n", "")


def test_resume_needs_something_to_go_on_with(heapyard, two: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "suite", "1.toml", two)
    assert "no earlier run" in heapyard("run", str(path.parent), "--resume").err
    assert "--resume is for a folder" in heapyard("run", str(path), "--resume").err

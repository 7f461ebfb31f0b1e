# SPDX-License-Identifier: Apache-2.0
"""Study files: what is written is what is run, and every complaint names file, line and field."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from yard import allocator

from heapyard.catalog.mutators import workloads
from heapyard.catalog.study import Command, Library, read_study
from heapyard.catalog.treatments import cross, parse_cpus
from heapyard.model.claim import Claim
from heapyard.model.errors import UsageError

FULL = """
[study]
title = "arenas"
programs = ["g++", "mine", "jq:full"]
allocators = ["glibc", "jemalloc:narenas=1,dirty_decay_ms=0", "own"]
baseline = "glibc"
precision = "0.5%"
budget = "1h30m"
timeout = 90
pilot = 8
margins = { time = "1%", memory = 0.1 }
seed = 42
pin = "0"
count_syscalls = true

[factors]
thp = ["default", "never"]
env.MALLOC_ARENA_MAX = ["1", "4"]

[program.mine]
command = ["./run", "--fast", "{dir}"]
stdin = "input.txt"
env = { LANG = "C" }
expect_exit = 3
check = "exit"

[allocator.own]
library = "libown.so"
env = { OWN_OPTION = "1" }

[[claims]]
text = "one arena is slower"
source = "a paper, figure 3"
kind = "within"
metric = "wall"
treatments = ["glibc [MALLOC_ARENA_MAX=1]"]
at = { program = "jq:full", thp = ["never"] }
bounds = [1.0, 1.5]

[[claims]]
text = "a sentence alone"
"""


def study_file(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path


def test_every_field_is_read(tmp_path: Path) -> None:
    study = read_study(study_file(tmp_path, FULL))
    assert study.title == "arenas" and study.baseline == "glibc" and study.text == FULL
    assert study.programs == ("g++", "mine", "jq:full")
    assert study.allocators[1] == "jemalloc:narenas=1,dirty_decay_ms=0"
    assert study.settings == {
        "precision": 0.005,
        "budget": 5400.0,
        "timeout": 90.0,
        "cpus": (0,),
        "pilot_blocks": 8,
        "seed": 42,
        "count_syscalls": True,
        "margin_time": 0.01,
        "margin_memory": 0.1,
    }
    assert study.factors == {"thp": ("default", "never"), "env.MALLOC_ARENA_MAX": ("1", "4")}
    assert study.commands == {
        "mine": Command(("./run", "--fast", "{dir}"), tmp_path / "input.txt", {"LANG": "C"}, tmp_path, 3, "exit")
    }
    assert study.libraries == {"own": Library(tmp_path / "libown.so", {"OWN_OPTION": "1"})}
    assert study.claims == (
        Claim(
            "one arena is slower",
            "within",
            "a paper, figure 3",
            "wall",
            ("glibc [MALLOC_ARENA_MAX=1]",),
            at={"program": ("jq:full",), "thp": ("never",)},
            bounds=(1.0, 1.5),
        ),
        Claim("a sentence alone"),
    )


@pytest.mark.parametrize(
    "text, line, field, complaint",
    [
        ("", 1, "study", "is missing"),
        ("[study]\ntitle = 3", 2, "study.title", "a string"),
        ("[study]\n\nprogramms = []", 3, "study.programms", "not known here"),
        ("[study]\nprograms = 'g++'", 2, "study.programs", "list of strings"),
        ("[study]\nprecision = '200%'", 2, "study.precision", "between 0 and 100 %"),
        ("[study]\nbudget = 'soon'", 2, "study.budget", "not a duration"),
        ("[study]\nblocks = 0", 2, "study.blocks", "at least 1"),
        ("[study]\npilot = 1", 2, "study.pilot", "at least 2"),
        ("[study]\npin = '999'", 2, "study.pin", "cannot be used here"),
        ("[study]\nmargins = { time = 'x' }", 2, "study.margins.time", "not a share"),
        ("[study]\n[factors]\nthp = ['sometimes']", 3, "factors.thp", "levels are default, always, madvise, never"),
        ("[study]\n[factors]\nthp = ['never', 'never']", 3, "factors.thp", "same level twice"),
        ("[study]\n[factors]\nmoon = ['full']", 3, "factors.moon", "no factor 'moon'"),
        ("[study]\n[factors]\nenv.A = ['1']\nenv.B = [1]", 4, "factors.env.B", "list of strings"),
        ("[study]\n[program.p]\ncommand = []", 3, "program.p.command", "empty"),
        ("[study]\n[program.p]\ncommand = ['x']\ncheck = 'maybe'", 4, "program.p.check", "output, exit"),
        ("[study]\n[allocator.a]\nlib = 'x'", 2, "allocator.a.library", "is missing"),
        ("[study]\n[[claims]]\ntext = 'a'\n[[claims]]\ntext = 'b'\nbounds = [2, 1]", 6, "claims.bounds", "two numbers"),
        ("[study]\n[[claims]]\ntext = 'a'\nkind = 'within'\nmetric = 'wall'", 2, "claims.bounds", "kind within needs it"),
        ("[study]\n[[claims]]\ntext = 'a'\nover = 'moon'", 4, "claims.over", "not a factor here"),
        ("[study]\n[options]\nthreads = 2", 2, "options", "the study names none"),
        ("[study]\nmutator = 'acdc'\n[factors]\ndelay = 3", 4, "factors.delay", "list of levels"),
        ("[study]\nmutator = 'acdc'\n[factors]\ndelay = [1, 1]", 4, "factors.delay", "same level twice"),
        ("[study]\nmutator = 'acdc'\n[factors]\ndelay = [[1]]", 4, "factors.delay", "numbers, strings"),
        ("[study]\nmutator = 'acdc'\nprograms = ['jq']", 3, "study.programs", "do not go together"),
        ("[study]\nmutator = 'acdc'\n[[figures]]\ntitle = 'a'\nmetric = 'wall'\nover = 'x'", 6, "figures.over", "factor"),
        ("[study]\n[oops]\n", 2, "oops", "not known here"),
    ],
)
def test_complaints_name_file_line_and_field(tmp_path: Path, text: str, line: int, field: str, complaint: str) -> None:
    path = study_file(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_study(path)
    message = caught.value.message
    assert message.startswith(f"{path}:{line}: field '{field}' ") and complaint in message
    assert "\n" not in message


def test_what_is_not_toml_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"study.toml:2: is not valid TOML"):
        read_study(study_file(tmp_path, "[study]\ntitle = \n"))
    with pytest.raises(UsageError, match="cannot be read"):
        read_study(tmp_path / "none.toml")


def test_allocators_are_crossed_with_every_combination_of_levels() -> None:
    factors = {"thp": ("default", "never"), "env.A": ("1", "2", "3"), "cpus": ("0",)}
    treatments, baseline = cross([allocator("slim"), allocator("glibc")], factors, "glibc")
    assert len(treatments) == 2 * 2 * 3 + 1
    assert len({t.label for t in treatments}) == len(treatments)
    assert baseline == "glibc [thp=default, A=1]"
    control = treatments[-1]
    assert (control.role, control.label) == ("control", "glibc [thp=default, A=1] (A/A control)")
    assert control.levels == {"thp": "default", "env.A": "1", "cpus": "0"}


def test_without_factors_labels_are_names() -> None:
    treatments, baseline = cross([allocator("glibc"), allocator("slim")], {}, "glibc")
    assert [t.label for t in treatments] == ["glibc", "slim", "glibc (A/A control)"] and baseline == "glibc"


def test_the_baseline_must_be_among_the_allocators() -> None:
    with pytest.raises(UsageError, match="'glibc' is not among"):
        cross([allocator("slim")], {}, "glibc")


def test_cpu_lists() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    assert parse_cpus(f"{allowed[0]}") == (allowed[0],)
    assert parse_cpus(f"{allowed[0]}-{allowed[0]},{allowed[-1]}") == tuple(sorted({allowed[0], allowed[-1]}))
    for wrong in ("", "a", "1-", "3-1", "-1", "0,,1"):
        with pytest.raises(UsageError):
            parse_cpus(wrong)


STUDIES = sorted((Path(__file__).resolve().parents[2] / "studies").rglob("*.toml"))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_study_of_ours_is_sound_at_every_scale(path: Path) -> None:
    """Fields, options of the mutator, and that claims and figures speak of treatments the study has."""
    scales = tomllib.loads(path.read_text()).get("scales", {})
    studies = [read_study(path, scale) for scale in scales or [None]]
    # A scale may leave allocators out. What is claimed of them cannot be told there.
    known = {name for study in studies for name in (*study.allocators, *study.if_installed, *study.treatments)}
    for study in studies:
        if study.mutator:
            only = [option for own in study.treatments.values() for option in own.options]
            assert workloads(study.mutator, study.options, study.levels, only)
            assert study.figures, "a study of a mutator draws something"
        if not study.factors:
            spoken_of = {name for claim in study.claims for name in (*claim.treatments, *claim.than)}
            assert spoken_of <= known
        for claim in study.claims:
            assert claim.source, "whose finding it is"

# SPDX-License-Identifier: Apache-2.0
"""`tune` on the command line: phases, answer, interruptions, refusals. Launches are make-believe."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from test_cli import sentence
from yard import FakeLaunch

from heapyard import store
from heapyard.model.tuning import PHASES

OWN = ["--setting", "glibc:arena_max=1,2", "--setting", "glibc:top_pad=16777216"]
ASKED = ["tune", "glibc", *OWN, "--no-html", "--seed", "1", "--precision", "50%", "--", "/bin/true"]


class Known(FakeLaunch):
    """Time by the options of a variant: each that it has in `factors` multiplies."""

    def __init__(self, factors: dict[str, float], **more: object):
        super().__init__(noise=0.004, **more)
        self.factors = factors

    def __call__(self, program, treatment, settings, **rest):
        _, _, options = treatment.allocator.name.partition(":")
        ratio = 1.0
        for option in options.split(","):
            ratio *= self.factors.get(option, 1.0)
        self.ratios = {treatment.allocator.name: ratio}
        return super().__call__(program, treatment, settings, **rest)


def test_the_best_setting_is_confirmed_and_can_be_pasted(heapyard, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = heapyard(*ASKED, launch=Known({"arena_max=2": 0.9, "arena_max=1": 1.1, "top_pad=16777216": 0.95}))
    assert said.code == 0, said.err
    assert "glibc: arena_max=2, top_pad=16777216 on true: wall time -1" in said.out
    assert "export GLIBC_TUNABLES=glibc.malloc.arena_max=2:glibc.malloc.top_pad=16777216" in said.out
    assert "arena_max=1 " in said.out and "confirmed on fresh blocks" in said.out
    assert [line for line in said.out.splitlines() if len(line) > 80 and "GLIBC_TUNABLES" not in line] == []

    again = heapyard("tune", "--resume")
    assert again.out == said.out, "a search that is over is shown again"
    _has_a_page(Path(again.err.rpartition("report: ")[2].strip()))
    found = json.loads(heapyard("tune", "--resume", "--json", "--no-html").out)
    [glibc] = found["allocators"]
    assert found["complete"] and found["reached"] == "confirmation" and glibc["combinations"] == 6
    assert glibc["best"] == {"arena_max": "2", "top_pad": "16777216"}
    [confirmed] = [c for c in glibc["confirmed"] if c["settings"] == glibc["best"]]
    assert confirmed["variant"] == "glibc:arena_max=2,top_pad=16777216" and abs(confirmed["time"]["ratio"] - 0.9 * 0.95) < 0.01
    assert [stage["phase"] for stage in found["stages"]] == list(PHASES) and found["stages"][0]["choices"] == 6
    assert len(glibc["candidates"]) == 5 and glibc["best"] in [c["settings"] for c in glibc["candidates"] if c["on_front"]]
    effect = next(e for e in glibc["main_effects"] if (e["metric"], e["level"]) == ("wall", "2"))
    assert effect["low"] < 0.9 < effect["high"]

    listed = store.list_records(tmp_path / "results")
    assert len({one.suite for one in listed}) == 1 and all(one.status == "finished" for one in listed)
    assert {one.title.split()[0] for one in listed} <= set(PHASES)
    assert heapyard("show", listed[0].id).code == 0


def _has_a_page(page: Path) -> None:
    """Written by the second command: the lines to paste, the front, effects, phases, and a link to a page that is there."""
    text = page.read_text()
    assert page.name.startswith("tune-") and "<script" not in text
    assert "export GLIBC_TUNABLES=glibc.malloc.arena_max=2:glibc.malloc.top_pad=16777216" in text
    assert "heapyard wrap glibc:arena_max=2,top_pad=16777216" in text and "All 5 settings that were tried" in text
    assert text.count("<svg") == 6, "the front and the effects on time and on memory, each wide and narrow"
    assert all(f'<th scope="row">{phase}' in text for phase in PHASES)
    links = re.findall(r'href="([^#"][^"]*)"', text)
    assert links and len(set(links)) == 1 and (page.parent / links[0]).is_file()


def test_of_settings_that_do_nothing_it_says_so(heapyard) -> None:
    said = heapyard(*ASKED, launch=Known({}))
    assert said.code == 0 and "settings do nothing here" in said.out and "Environment=" not in said.out


def test_an_interrupted_search_says_what_is_known_and_goes_on(heapyard) -> None:
    """The program fails under one of the settings, which is then left out."""

    def launch(stop_after: int | None) -> Known:
        known = Known({"arena_max=2": 0.9}, stop_after=stop_after)
        known.faults = {("true", f"glibc:{options}"): {} for options in ("top_pad=16777216", "arena_max=2,top_pad=16777216")}
        return known

    cut = heapyard(*ASKED, launch=launch(25))
    assert cut.code == 130 and "tune --resume" in cut.err and "Environment=" not in cut.out
    assert "nothing is claimed" in cut.out
    done = heapyard("tune", "--resume", launch=launch(None))
    assert done.code == 0 and "glibc: arena_max=2 on true: wall time -" in done.out


def test_an_interruption_before_anything_is_known_says_so(heapyard) -> None:
    cut = heapyard(*ASKED, launch=Known({}, stop_after=1))
    assert cut.code == 130 and "before a block was complete" in cut.err and cut.out == ""


def test_a_budget_that_is_too_short_claims_nothing(heapyard) -> None:
    assert "too short" in sentence(heapyard(*ASKED[:-2], "--quiet", "--budget", "1ms", "--", "/bin/true"), 4)


@pytest.mark.parametrize("words, complaint", [
    (["glibc"], "there is no program to tune for"),
    (["glibc", "jq", "git"], "2 programs were named"),
    (["jq", "--", "/bin/true"], "not both"),
    (["bfm", "--", "/bin/true"], "bfm has no settings"),
    (["glibc:arena_max=1", "--", "/bin/true"], "name the allocator alone"),
    (["glibc", "--setting", "glibc:arenas=1", "--quiet", "--", "/bin/true"], "has no option 'arenas'"),
    (["glibc", "--setting", "glibc:tcache_count", "--", "/bin/true"], "write ALLOCATOR:OPTION=VALUE"),
    (["--resume"], "there is no search to go on with"),
    (["glibc", "--resume", "x"], "takes no names"),
])
def test_wrong_input_is_one_sentence(heapyard, words, complaint) -> None:
    assert complaint in sentence(heapyard("tune", *words), 2)


def test_the_catalog_is_listed(heapyard) -> None:
    listed = json.loads(heapyard("tune", "--list", "--json").out)
    names = {space["allocator"]: {s["name"] for s in space["settings"]} for space in listed}
    assert {"arena_max", "mmap_threshold"} <= names["glibc"] and names["heapyard"] == {"thread_cache"}
    assert all(s["source"] and s["default"] and s["about"] for space in listed for s in space["settings"])
    assert "arena_max: 1" in heapyard("tune", "--list", "glibc").out

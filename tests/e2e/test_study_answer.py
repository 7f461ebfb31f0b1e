# SPDX-License-Identifier: Apache-2.0
"""A study of a mutator from its file to every form of its answer: terminal, scoreboard, page, exported files, gnuplot."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e_yard import Yard

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))
from simulated import as_study, simulate

from heapyard.report.html import write_report

STUDY = """
[study]
title = "a paper: threadtest"
mutator = "threadtest"
allocators = ["glibc", "jemalloc"]
blocks = 3
time = "wall_time"
memory = "rss_average"
[options]
iterations = 5
objects = 500
[factors]
threads = [1, 2]
[[figures]]
title = "Time"
source = "a paper, Figure 1"
metric = "wall_time"
over = "threads"
[[claims]]
text = "Memory stays within a thousandfold of that of glibc."
source = "a paper, section 2"
kind = "within"
metric = "rss_average"
treatments = ["jemalloc"]
bounds = [0.001, 1000]
[[claims]]
text = "It scales to a thousand processors."
kind = "flat_in"
metric = "wall_time"
over = "threads"
bounds = [0.5, 2]
processors = 1000
"""
WIDTHS = {"desk": 1280, "hand": 390}


def test_a_study_is_answered_in_every_form(yard: Yard) -> None:
    path = yard.folder / "study.toml"
    path.write_text(STUDY)
    done = yard.run("run", path, "--no-html")
    assert done.returncode == 0, done.stderr
    said = yard.run("show", "--verbose", env={"COLUMNS": "80"}).stdout
    assert max(map(len, said.splitlines())) <= 80
    assert "Time (a paper, Figure 1), " in said and "threads" in said and "±" in said
    assert "1 of 2 claims hold here, 1 cannot be told" in " ".join(said.split())
    board = yard.run("claims", env={"COLUMNS": "80"})
    assert board.returncode == 0 and board.stdout.startswith("1 study: 1 of 2 claims hold here, 1 cannot be told.\n")
    assert "+ holds: Memory stays within" in board.stdout and "(a paper, section 2)" in " ".join(board.stdout.split())
    (study,) = json.loads(yard.run("claims", "--json").stdout)
    assert [c["verdict"] for c in study["claims"]] == ["holds", "cannot tell"]
    answer = json.loads(yard.run("show", "--json").stdout)
    (figure,) = answer["figures"]
    assert figure["levels"] == ["1", "2"] and len(figure["points"]) == 4
    assert all(p["mean"]["low"] <= p["mean"]["ratio"] <= p["mean"]["high"] for p in figure["points"])
    report = yard.run("report", "--output", yard.results)
    assert report.returncode == 0, report.stderr
    page = next(yard.results.glob("*/report.html")).read_text(encoding="utf-8")
    assert page.count('<figure class="drawn curves">') == 1 and "1 of 2 claims hold here" in page
    exported = yard.run("export", "--dat", yard.folder / "data")
    assert exported.returncode == 0 and len(exported.stdout.splitlines()) == 4, exported.stderr
    drawn = subprocess.run(
        ["gnuplot", "-e", f"data='{yard.folder / 'data' / 'threadtest'}'", yard.root / "studies" / "plots" / "threads.gp"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert drawn.returncode == 0 and "jemalloc" in drawn.stdout and "seconds" in drawn.stdout, drawn.stderr


@pytest.fixture(scope="module")
def page(browser: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Opens the report of a study of fourteen allocators in windows of a width and colour scheme."""
    from playwright.sync_api import sync_playwright

    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, *as_study(simulate(14, 6, 4, failing=1)[1]))
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])

        def opened(width: int, scheme: str) -> Any:
            view = started.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
            view.goto(path.as_uri())
            return view

        yield opened
        started.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_names_of_curves_are_read_at_any_width(page: Any, width: int) -> None:
    view = page(width, "light")
    figures = view.locator("figure.curves")
    assert figures.count() == 4
    for i in range(4):
        texts = figures.nth(i).locator("svg:visible text").evaluate_all(
            "all => all.map(e => [e.textContent, ...['left', 'top', 'right', 'bottom'].map(s => e.getBoundingClientRect()[s])])"
        )
        names = [t for t in texts if t[0].startswith(("glibc", "hardened", "jemalloc", "mimalloc", "mine", "tbb"))]
        assert len(names) >= 9 and max(t[3] for t in texts) <= width, "a word is cut off at the right"
        tops = sorted(t[2] for t in names)
        assert all(b - a >= 10 for a, b in zip(tops, tops[1:], strict=False)), "names lie on each other"
    assert view.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_names_of_curves_stand_out_from_their_ground(page: Any, scheme: str) -> None:
    view = page(1280, scheme)
    least = view.evaluate(
        """() => {
          const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => v / 255)
              .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b };
          const ground = light(getComputedStyle(document.body).backgroundColor);
          return Math.min(...[...document.querySelectorAll('figure.curves .only-wide svg text')].map(e => {
            const ink = light(getComputedStyle(e).fill);
            return (Math.max(ink, ground) + .05) / (Math.min(ink, ground) + .05) }));
        }"""
    )
    assert least >= 3.0

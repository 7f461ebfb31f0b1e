# SPDX-License-Identifier: Apache-2.0
"""The HTML report in a real browser: no network, no errors, on a phone, in the dark, with scripts switched off."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))
from simulated import as_study, curve, simulate

from heapyard.model.analysis import Analysis
from heapyard.model.record import Record
from heapyard.report.html import write_report
from heapyard.report.verdict import answered

pytestmark = pytest.mark.browser
HOSTILE = "\"'<img src=x onerror=alert(1)>&"
PHONE = {"width": 360, "height": 740}
FIGURES = ("scatter", "forest", "trials", "memory")


@pytest.fixture(scope="module")
def experiment() -> tuple[Analysis, Record]:
    return as_study(simulate(13, 8, 4, failing=1, hostile=HOSTILE)[1], HOSTILE)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory, experiment: tuple[Analysis, Record]) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, *experiment, series=curve)
    return path


def opened(chromium: Any, path: Path, **options: Any) -> tuple[Any, list[str], list[str]]:
    """(page, what it asked for, what it complained about) once its figures are drawn."""
    page = chromium.new_context(**options).new_page()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    if options.get("java_script_enabled", True):
        for figure in FIGURES:
            page.wait_for_selector(f"[data-figure={figure}].is-live svg.marks", state="attached")
    return page, asked, errors


def test_it_draws_everything_and_asks_the_network_for_nothing(
    chromium: Any, page_file: Path, experiment: tuple[Analysis, Record]
) -> None:
    page, asked, errors = opened(chromium, page_file)
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert errors == []
    assert page.locator("h1").inner_text() == answered(experiment[0]).headline
    assert page.locator(".fixed svg:visible").count() == 0, "a fixed picture stands beside its drawn one"


def panels(page: Any, figure: str) -> list[str]:
    """Titles of a figure's panels: here the programs'."""
    words = page.locator(f"[data-figure={figure}] .live svg text").evaluate_all("all => all.map(e => e.textContent)")
    return [word for word in words if word.startswith("program")]


def test_figures_of_a_study_are_drawn_and_their_numbers_stand_below(chromium: Any, page_file: Path) -> None:
    page, _, _ = opened(chromium, page_file)
    figures = page.locator("figure.curves")
    assert figures.count() == 4, "the one without a measurement is left out"
    first = figures.first
    assert f"Time{HOSTILE}" in first.inner_text() and first.locator("svg:visible").count() == 1
    assert first.locator("svg:visible").evaluate("e => e.textContent").count("jemalloc") == 2  # and jemalloc-5.3.1
    first.locator("summary").click()
    assert first.locator("tbody tr").count() == 14 and first.locator("thead th").count() == 9
    outside = page.evaluate("""() => [...document.querySelectorAll('figure.curves svg')].filter(e => e.clientWidth)
      .map(e => e.getBoundingClientRect().right - document.querySelector('main').getBoundingClientRect().right)""")
    assert max(outside) <= 1
    claims = page.locator(".claims tbody tr")
    assert claims.count() == 5 and "cannot tell" in claims.nth(3).inner_text()
    assert "needs 64 processors" in claims.nth(4).inner_text()


def test_several_studies_fit_one_page(
    chromium: Any, tmp_path: Path, experiment: tuple[Analysis, Record]
) -> None:
    from heapyard.report.suite import write_suite

    path = tmp_path / "suite.html"
    write_suite(path, f"a suite{HOSTILE}", [experiment, as_study(simulate(3, 4, 3)[1])])
    for scheme, viewport in (("light", {"width": 1200, "height": 900}), ("dark", PHONE)):
        page = chromium.new_context(color_scheme=scheme, viewport=viewport).new_page()
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(path.as_uri())
        assert len(asked) == 1 and page.locator("h2").count() == 2
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        assert page.locator("figure.curves svg:visible").count() == 8


def test_choosing_redraws(chromium: Any, page_file: Path) -> None:
    page, _, errors = opened(chromium, page_file)
    forest = "document.querySelector('[data-figure=forest] .live').textContent"
    assert "wall time, ratio" in page.evaluate(forest)
    page.locator("[data-choose=forest]").select_option(label="peak RSS")
    page.wait_for_function(f"{forest}.includes('peak RSS, ratio')")
    assert len(panels(page, "trials")) == len(panels(page, "memory")) == 8
    page.locator("[data-choose=program]").select_option(index=2)
    page.wait_for_function("document.querySelectorAll('[data-figure=memory] .live .role-axis-title').length <= 2")
    assert panels(page, "trials") == panels(page, "memory") == [f"program1{HOSTILE}"]
    assert errors == []


def test_a_mark_leads_to_its_trial(chromium: Any, page_file: Path, experiment: tuple[Analysis, Record]) -> None:
    page, _, _ = opened(chromium, page_file)
    page.locator("[data-figure=trials] .live .mark-symbol.role-mark path").first.dispatch_event("click")
    told = page.locator("#picked").inner_text()
    number = int(told.split()[1].rstrip(":"))
    trial = next(t for t in experiment[1].trials if t.id == number)
    assert f"{trial.workload} under {trial.treatment}" in told
    assert f"heapyard show {experiment[1].id} --trial {number}" in told


def test_a_name_leads_to_its_command_line_and_its_trials(
    chromium: Any, page_file: Path, experiment: tuple[Analysis, Record]
) -> None:
    page, _, _ = opened(chromium, page_file)
    page.locator("#programs ~ details summary").first.click()
    page.locator("#programs ~ details").first.get_by_role("link", name="jemalloc", exact=True).click()
    run = page.locator(":target")
    assert run.is_visible()
    trial = next(t for t in experiment[1].trials if t.treatment == "jemalloc")
    assert trial.command_line in run.inner_text() and f"--trial {trial.id}" in run.inner_text()
    page.get_by_label("Search").fill("jemalloc program0")
    assert run.is_visible()
    page.get_by_label("Search").fill("no such words")
    assert not run.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("scripts", [True, False])
def test_a_phone_needs_no_sideways_scrolling(chromium: Any, page_file: Path, scheme: str, scripts: bool) -> None:
    page, _, errors = opened(
        chromium, page_file, viewport=PHONE, color_scheme=scheme, java_script_enabled=scripts
    )
    if scripts:
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        # What is drawn needs no scrolling either: no picture is wider than its place.
        cut = page.locator(".live").evaluate_all("all => all.map(e => e.scrollWidth - e.clientWidth)")
        assert max(cut) <= 0
        legend = page.locator("[data-figure=forest] .live .role-legend-label text").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect().right)"
        )
        assert legend and max(legend) <= PHONE["width"]
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    else:
        assert page.locator("main").bounding_box()["width"] <= PHONE["width"]
    assert errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_have_contrast(chromium: Any, page_file: Path, scheme: str) -> None:
    page, _, _ = opened(chromium, page_file, color_scheme=scheme)
    least = page.evaluate("""() => {
      document.querySelectorAll('details').forEach(d => { d.open = true; });
      const parse = c => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
      const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
      const light = c => parse(c).map(v => linear(v / 255)).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
      const ground = e => {
        for (; e; e = e.parentElement) {
          const c = getComputedStyle(e).backgroundColor;
          if (!/, 0\\)$/.test(c)) return c;
        }
      };
      const ratio = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
      const words = 'h1, h2, h3, p, li, th, td, dt, dd, summary, figcaption, small, a, code, button, select, .tag, .banner';
      const text = [...document.querySelectorAll(words)].filter(e => e.offsetParent)
        .map(e => ratio(light(getComputedStyle(e).color), light(ground(e))));
      const paper = light(getComputedStyle(document.body).backgroundColor);
      const marks = [...document.querySelectorAll('.live .mark-symbol.role-mark path')]
        .map(e => [getComputedStyle(e).fill, getComputedStyle(e).stroke].filter(c => c.startsWith('rgb(')))
        .filter(c => c.length).map(c => Math.max(...c.map(one => ratio(light(one), paper))));
      return [Math.min(...text), text.length, Math.min(...marks), marks.length];
    }""")
    assert least[0] >= 4.5 and least[1] > 500
    assert least[2] >= 3 and least[3] > 500


def test_without_scripts_the_verdict_tables_and_figures_are_there(
    chromium: Any, page_file: Path, experiment: tuple[Analysis, Record]
) -> None:
    page, _, _ = opened(chromium, page_file, java_script_enabled=False)
    assert page.locator("h1").inner_text() == answered(experiment[0]).headline
    assert page.locator("table").first.is_visible()
    for figure in FIGURES:
        assert page.locator(f"[data-figure={figure}] svg").first.is_visible()
    assert page.locator("button:visible, select:visible, input:visible").count() == 0, "controls that do nothing"
    assert page.locator("img").count() == 0  # the name of a program that looks like one


def test_on_paper_nothing_is_lost_behind_controls(chromium: Any, page_file: Path) -> None:
    page, _, _ = opened(chromium, page_file)
    page.emulate_media(media="print")
    assert page.locator("h1").is_visible() and page.locator("[data-figure=scatter] svg:visible").count() == 1
    assert page.locator("nav").is_hidden() and page.locator("button:visible").count() == 0


def test_it_is_built_for_screen_readers(chromium: Any, page_file: Path) -> None:
    page, _, _ = opened(chromium, page_file, java_script_enabled=False)
    assert page.get_attribute("html", "lang") == "en"
    pictures = page.locator("[role=img]").all()
    drawn_by_python = 4  # the figures of the study; over its levels nothing is ranked
    assert len(pictures) == len(FIGURES) + drawn_by_python and all((p.get_attribute("aria-label") or "").strip() for p in pictures)
    assert page.locator("th:not([scope])").count() == 0
    assert page.locator("h1").count() == 1
    levels = [int(tag[1]) for tag in page.locator("h1, h2, h3").evaluate_all("all => all.map(e => e.tagName)")]
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    unnamed = "select, input".split(", ")
    assert all(page.locator(f"label {kind}").count() == page.locator(kind).count() for kind in unnamed)
    ids = page.locator("[id]").evaluate_all("all => all.map(e => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("size", [(0, 1, 2), (1, 1, 0), (2, 3, 1), (1, 2, 3)])
def test_small_experiments_draw_without_complaint(chromium: Any, tmp_path: Path, size: tuple[int, int, int]) -> None:
    write_report(tmp_path / "r.html", *simulate(*size, failing=min(1, size[0])), series=curve)
    page = chromium.new_page()
    errors: list[str] = []
    page.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((tmp_path / "r.html").as_uri())
    page.wait_for_function("[...document.querySelectorAll('[data-figure]')].every(f => f.matches('.is-live'))")
    assert errors == []

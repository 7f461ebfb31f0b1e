"""The HTML report in a real browser: no network, no errors, on a phone, in the dark, with scripts switched off."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))
from simulated import curve, simulate  # noqa: E402

from heapyard.report.html import write_report  # noqa: E402
from heapyard.report.verdict import verdict  # noqa: E402

pytestmark = pytest.mark.browser
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
HOSTILE = "\"'<img src=x onerror=alert(1)>&"


@pytest.fixture(scope="module")
def chromium(browser: str) -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=QUIET)
        yield started
        started.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, *simulate(13, 8, failing=1, hostile=HOSTILE), series=curve)
    return path


def opened(chromium, path: Path, **options):  # type: ignore[no-untyped-def]
    """(page, what it asked for, what it complained about) once its figures are drawn."""
    context = chromium.new_context(**options)
    page = context.new_page()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda r: asked.append(r.url))
    page.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.goto(path.as_uri())
    return page, asked, errors


def test_it_draws_everything_and_asks_the_network_for_nothing(chromium, page_file: Path) -> None:  # type: ignore[no-untyped-def]
    page, asked, errors = opened(chromium, page_file)
    page.wait_for_selector("#fig-drift.drawn svg, #fig-drift svg.marks")
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert errors == []
    assert page.locator("figure svg.marks").count() >= 4  # drawn by the script, not the fixed pictures
    assert page.locator("h1").inner_text() == verdict(simulate(13, 8, failing=1, hostile=HOSTILE)[0])
    page.locator("summary").last.click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling_and_the_text_has_contrast(
    chromium, page_file: Path, scheme: str
) -> None:  # type: ignore[no-untyped-def]
    page, _, errors = opened(chromium, page_file, viewport={"width": 360, "height": 800}, color_scheme=scheme)
    page.wait_for_selector("figure svg.marks")
    page.wait_for_timeout(1500)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert errors == []
    contrast = page.evaluate("""() => {
      const parse = c => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
      const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
      const light = c => parse(c).map(v => linear(v / 255)).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
      const paper = light(getComputedStyle(document.body).backgroundColor);
      return [...document.querySelectorAll('h1, h2, p, th, td, summary, figcaption, small')]
        .map(e => light(getComputedStyle(e).color))
        .map(l => (Math.max(l, paper) + .05) / (Math.min(l, paper) + .05)).reduce((a, b) => Math.min(a, b)); }""")
    assert contrast >= 4.5


def test_without_scripts_the_verdict_tables_and_figures_are_there(
    chromium, page_file: Path
) -> None:  # type: ignore[no-untyped-def]
    page, _, _ = opened(chromium, page_file, java_script_enabled=False)
    assert page.locator("h1").is_visible() and page.locator("table").first.is_visible()
    assert page.locator("figure svg").first.is_visible()
    assert page.locator("img").count() == 0  # the name of a program that looks like one


def test_it_is_built_for_screen_readers(chromium, page_file: Path) -> None:  # type: ignore[no-untyped-def]
    page, _, _ = opened(chromium, page_file, java_script_enabled=False)
    assert page.get_attribute("html", "lang") == "en"
    for chart in page.locator("figure .chart").all():
        assert (chart.get_attribute("aria-label") or "").strip()
    assert page.locator("th:not([scope])").count() == 0

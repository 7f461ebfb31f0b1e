# SPDX-License-Identifier: Apache-2.0
"""The profile page in headless Chromium, and exports read by tools that are not ours."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from profiled import only, program, traced

from heapyard.profile.account import nearest
from heapyard.profile.chains import Naming
from heapyard.profile.exports import collapsed
from heapyard.profile.exports import csv as table
from heapyard.profile.exports import heaptrack, massif, perfetto, pprof, speedscope
from heapyard.profile.instants import at_instant
from heapyard.profile.page import write_profile_page
from heapyard.profile.symbols import frames_of
from heapyard.profile.trace import Trace, load_trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """More than 20,000 call chains."""
    folder = tmp_path_factory.mktemp("profile")
    run = traced(folder, program("truth"), folder / "told", 5, 200_000, 2, mode="exact", never_step=True)
    made = only(run)
    assert len(made.chains) > 20_000
    return made


@pytest.fixture(scope="module")
def naming(trace: Trace) -> Naming:
    return Naming(trace, frames_of(trace))


@pytest.fixture(scope="module")
def page_file(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_profile_page(tmp_path_factory.mktemp("page") / "profile.html", trace)


def opened(chromium: Any, path: Path, **options: Any) -> tuple[Any, list[str]]:
    page = chromium.new_context(**options).new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith("file:") else faults.append(f"asked for {request.url}"))
    page.goto(path.as_uri())
    if options.get("java_script_enabled", True):
        page.wait_for_selector("html[data-ready]", state="attached")
    return page, faults


@pytest.mark.browser
def test_page_answers_with_20_000_chains(chromium: Any, page_file: Path):
    """Everything a reader does, without an error and without the network. How long it took is told, not asserted on."""
    began = time.perf_counter()
    page, faults = opened(chromium, page_file)
    painted = time.perf_counter() - began
    heading = page.locator("#flame-title")
    assert "at the peak" in heading.inner_text()
    box = page.locator("#timeline").bounding_box()
    middle = box["y"] + 100
    page.mouse.click(box["x"] + box["width"] / 2, middle)
    assert "at the peak" not in heading.inner_text()
    page.mouse.move(box["x"] + 200, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 600, middle)
    page.mouse.up()
    assert heading.inner_text().startswith("What changed from")
    assert page.locator("#chains tbody tr").count() > 5
    page.fill("#search", "third<3>")
    page.locator("#found", has_text="match").wait_for()
    slowest = page.evaluate("""() => { let worst = 0; for (let i = 0; i < 20; i++) { const t = performance.now();
        choose(profile.seconds * i / 20, i % 2 ? 0 : null); worst = Math.max(worst, performance.now() - t); } return worst; }""")
    page.uncheck("#resident")
    page.evaluate("profile.totals.rss.fill(1e12)")
    page.check("#resident")
    assert page.evaluate("timeline.top") > 1e12
    page.uncheck("#resident")
    assert page.evaluate("timeline.top") < 1e11
    page.select_option("#grouping", "chain")
    assert page.locator("#legend li").count() > 5
    page.locator("#tabs button").last.click()
    page.locator("#chains details summary").first.click()
    page.locator("#chains details ol li").nth(3).wait_for()
    assert faults == []
    print(f"ready after {painted:.2f} s; an instant takes at most {slowest:.0f} ms")


@pytest.mark.browser
@pytest.mark.parametrize("options", [
    {"viewport": {"width": 360, "height": 740}}, {"color_scheme": "dark"}, {"java_script_enabled": False},
], ids=["phone", "dark", "no script"])
def test_page_fits(chromium: Any, page_file: Path, options: dict[str, Any]):
    page, faults = opened(chromium, page_file, **options)
    assert faults == []
    wide, seen = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]") if (
        options.get("java_script_enabled", True)) else (0, 0)
    assert wide <= seen
    assert "peak" in page.locator("h1").inner_text()
    if not options.get("java_script_enabled", True):
        assert page.locator("noscript table tbody tr").count() == 30 or "dive" in page.content()


@pytest.mark.browser
def test_page_tells_chains_apart_that_begin_alike(chromium: Any, page_file: Path):
    page, faults = opened(chromium, page_file)
    chains, told = page.evaluate("""() => {
      const inner = Array.from(profile.exact[0].node).slice(0, 300).map(telling);
      const frames = inner.map((node) => chainOf(node).map((n) => [profile.frame[n], nameOf(n), profile.files[profile.frame[n]]]));
      return [frames, partings(inner)];
    }""")
    assert len(chains) == 300
    for chain, name in zip(chains, told, strict=True):
        partings = [0]
        for other in chains:
            same = next((d for d, (a, b) in enumerate(zip(chain, other, strict=False)) if a != b), min(len(chain), len(other)))
            partings.append(same if same < len(chain) and other is not chain else 0)
        assert name in chain[max(partings)][1:] if max(partings) > 0 else name is None
    shown = page.eval_on_selector_all("#chains tbody .caller", "all => all.map((one) => one.textContent)")
    assert shown and all(text.startswith("< … < ") for text in shown)
    assert faults == []


@pytest.mark.browser
def test_bands_are_parts_of_all_resident_memory(chromium: Any, tmp_path: Path):
    mapped = only(traced(tmp_path, program("mapped"), tmp_path / "told"))
    page, faults = opened(chromium, write_profile_page(tmp_path / "profile.html", mapped))
    page.select_option("#grouping", "resident")
    names = page.eval_on_selector_all("#legend li", "all => all.map((one) => one.textContent)")
    assert names[0].startswith("mapped by ") and "live blocks" in names and names[-1] == "what has come since the last look"
    looks = page.evaluate("""() => profile.accounts.map((account, look) =>
      [account.time, timeline.bands.reduce((sum, band) => sum + band.steps[look], 0)])""")
    for account, (when, top) in zip(mapped.accounts, looks, strict=True):
        assert when == pytest.approx(account.time) and top == pytest.approx(account.resident, abs=1)
    page.locator("#tabs button[data-view=mapped]").click()
    assert page.locator("#chains tbody tr").count() >= 3
    assert page.locator("#dashed").text_content() == "live blocks"
    page.select_option("#grouping", "function")
    assert page.locator("#dashed").text_content() == "resident memory"
    assert faults == []


@pytest.mark.browser
def test_flame_graph_tells_siblings_of_one_name_apart(chromium: Any, page_file: Path):
    page, faults = opened(chromium, page_file)
    boxes = page.evaluate("""flame.boxes.filter((b) => profile.names[profile.frame[b.node]].startsWith("third")).map(
      (b) => [profile.parent[b.node], b.name, profile.files[profile.frame[b.node]]])""")
    siblings: dict[int, dict[str, str]] = {}
    for parent, name, whole in boxes:
        siblings.setdefault(parent, {})[whole] = name
    assert max(map(len, siblings.values())) > 2
    for names in siblings.values():
        for whole, name in names.items():
            assert re.fullmatch(rf"third ‹{number(whole)}\b.*›", name) or (name == "third" and len(names) == 1)
    told = page.evaluate("""() => [["f<int>()", "f<long>()"], ["f<int>()", "f<int, int>()"], ["f(int)", "f()"],
      ["std::map<A, B>::at", "std::map<A, Bc>::at", "std::map<A, B2>::at"]].map(differing)""")
    assert told == [["int", "long"], ["int", "int, int"], ["int", ""], ["B", "Bc", "B2"]]
    cut = page.evaluate("""() => [["first ‹12›", 9], ["first ‹12›", 6], ["first ‹12›", 5], ["first ‹12›", 4], ["first ‹12›", 10],
      ["main", 3], ["main", 1]].map(([text, fits]) => fitted(text, fits))""")
    assert cut == ["firs…‹12›", "f…‹12›", "…‹12›", "fir…", "first ‹12›", "ma…", "m…"]
    assert faults == []


def number(function: str) -> str:
    return function.partition("third<")[2].partition(">")[0]


@pytest.mark.skipif(not shutil.which("heaptrack_print"), reason="set-up installs heaptrack where the distribution has it")
def test_heaptrack_reads_it(trace: Trace, naming: Naming, tmp_path: Path):
    file = tmp_path / "heaptrack.gz"
    file.write_bytes(gzip.compress(heaptrack.render(trace, naming, at_instant(trace, "peak"))))
    told = subprocess.run(["heaptrack_print", file], capture_output=True, text=True, check=True).stdout
    [peak] = [line for line in told.splitlines() if line.startswith("peak heap memory consumption")]
    shown = float(peak.split(": ")[1].rstrip("M")) * 1e6
    assert shown == pytest.approx(trace.peak_bytes, rel=0.05)
    assert "third<>" in told or "third" in told


def test_ms_print_reads_it(trace: Trace, naming: Naming, tmp_path: Path):
    file = tmp_path / "massif.out"
    file.write_bytes(massif.render(trace, naming, at_instant(trace, "peak")))
    told = subprocess.run(["ms_print", file], capture_output=True, text=True, check=True).stdout
    assert "(peak)" in told and f"{trace.peak_bytes:,}" in told and "dive" in told


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Any protobuf message, by the wire format alone."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2
            length = varint()
            yield key >> 3, data[at : at + length]
            at += length


def test_pprof_is_whole(trace: Trace, naming: Naming, tmp_path: Path):
    data = pprof.render(trace, naming, at_instant(trace, "peak"))
    message = list(fields(gzip.decompress(data)))
    strings = [bytes(value).decode() for number, value in message if number == 6]
    assert strings[0] == "" and len(set(strings)) == len(strings)
    locations = {dict(fields(value))[1] for number, value in message if number == 4}
    functions = {dict(fields(value))[1] for number, value in message if number == 5}
    in_use = 0
    for number, value in message:
        if number == 2:
            sample = dict(fields(value))
            chain, numbers = ([*decoded(sample[1])], [*decoded(sample[2])])
            assert set(chain) <= locations and len(numbers) == (6 if trace.accounts else 4)
            in_use += numbers[3]
        if number == 4:
            assert all(dict(fields(line))[1] in functions for n, line in fields(value) if n == 4)
    assert in_use == trace.peak_bytes
    if shutil.which("go"):
        file = tmp_path / "profile.pb.gz"
        file.write_bytes(data)
        told = subprocess.run(["go", "tool", "pprof", "-top", file], capture_output=True, text=True)
        assert told.returncode == 0 and "inuse_space" in told.stdout and "dive" in told.stdout


def test_exports_have_what_was_mapped(tmp_path: Path):
    mapped = only(traced(tmp_path, program("mapped"), tmp_path / "told"))
    naming, instant = Naming(mapped, frames_of(mapped)), at_instant(mapped, "mark:full")
    account = nearest(mapped.accounts, instant.time)
    assert account is not None
    samples = [dict(fields(value))[2] for n, value in fields(gzip.decompress(pprof.render(mapped, naming, instant))) if n == 2]
    numbers = [[*decoded(bytes(sample))] for sample in samples]
    assert sum(row[5] for row in numbers) == account.mapped_resident.sum() > 0
    assert sum(row[4] for row in numbers) == account.pieces.sum()
    assert sum(row[3] for row in numbers) == instant.total
    shown = json.loads(speedscope.render(mapped, naming, instant))
    [told] = [profile for profile in shown["profiles"] if profile["name"].startswith("mapped by the program")]
    assert told["endValue"] == account.mapped_resident.sum()


def test_formats_of_one_kind_show_what_was_mapped_on_request(tmp_path: Path):
    path = traced(tmp_path, program("mapped"), tmp_path / "told").traces[0]
    accounts = load_trace(path).accounts
    marked = nearest(accounts, at_instant(load_trace(path), "mark:full").time)
    assert marked is not None
    size = max(int(account.mapped_resident.sum()) for account in accounts)

    def exported(format_: str, *options: str) -> bytes:
        words = [sys.executable, "-I", "-m", "heapyard", "profile", "export", format_, str(path), "--mapped", *options]
        done = subprocess.run([*words, "-o", "-"], capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    stacks = [line.rpartition(" ") for line in exported("collapsed", "--at", "mark:full").decode().splitlines()]
    assert sum(int(amount) for _, _, amount in stacks) == marked.mapped_resident.sum() > 0
    assert all("main" in stack for stack, _, amount in stacks if int(amount) > 100_000)
    snapshots = exported("massif").decode().split("#-----------\nsnapshot=")[1:]
    assert max(int(re.search(r"mem_heap_B=(\d+)", text)[1]) for text in snapshots) == size
    rows = list(csv.reader(exported("csv").decode().splitlines()))
    assert rows[0][1] == "mapped bytes" and max(float(row[1]) for row in rows[1:]) == size
    tracks = json.loads(exported("perfetto"))["traceEvents"]
    assert max(event["args"]["bytes"] for event in tracks if event["name"] == "mapped bytes") == size
    held = biggest = 0
    infos: list[int] = []
    for line in exported("heaptrack").decode().splitlines():
        word, *rest = line.split()
        if word == "a":
            infos.append(int(rest[0], 16))
        elif word in "+-":
            held += infos[int(rest[0], 16)] * (1 if word == "+" else -1)
            biggest = max(biggest, held)
    assert biggest == pytest.approx(size, rel=1 / 4096)
    refused = subprocess.run([sys.executable, "-I", "-m", "heapyard", "profile", "export", "pprof", str(path), "--mapped"],
                             capture_output=True, text=True)
    assert refused.returncode == 2 and "pprof has what was mapped beside what was allocated" in refused.stderr


def decoded(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


def test_speedscope_collapsed_csv_and_perfetto(trace: Trace, naming: Naming):
    peak = at_instant(trace, "peak")
    shown = json.loads(speedscope.render(trace, naming, peak))
    assert shown["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    for profile in shown["profiles"]:
        assert profile["type"] == "sampled" and len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] == sum(profile["weights"])
        assert max(max(stack) for stack in profile["samples"]) < len(shown["shared"]["frames"])
    assert shown["profiles"][0]["endValue"] == trace.peak_bytes
    lines = collapsed.render(trace, naming, peak).decode().splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == trace.peak_bytes
    rows = list(csv.reader(table.render(trace, naming, peak).decode().splitlines()))
    assert rows[0][:3] == ["seconds", "live bytes", "resident bytes"] and len(rows[0]) == 23 and len({*map(len, rows)}) == 1
    assert max(float(row[0]) for row in rows[1:]) == pytest.approx(trace.duration, abs=1e-5)
    assert max(int(row[1]) for row in rows[1:]) > 0.9 * trace.peak_bytes
    assert all(sum(map(int, row[3:])) <= 1.2 * trace.peak_bytes for row in rows[1:])
    events = json.loads(perfetto.render(trace, naming, peak))["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    assert len({event["name"] for event in counters}) > 50
    assert all(value >= 0 and event["ts"] >= 0 for event in counters for value in event["args"].values())
    kinds = [event["args"] for event in counters if event["name"] == "resident bytes, by kind"]
    assert len(kinds) == len(trace.accounts) > 0
    assert [sum(args.values()) for args in kinds] == [account.resident for account in trace.accounts]


def test_numbers_round_trip():
    """The vectorised reader of base-128 numbers against a loop, at every length."""
    from heapyard.profile.chunks import numbers, signed

    values = [0, 1, 127, 128, 300, 2**32 - 1, 2**63, 2**64 - 1, *(2**k for k in range(64)), *(2**k - 1 for k in range(1, 64))]
    data = b"".join(pprof._varint(value) for value in values)
    assert numbers(data).tolist() == values == list(decoded(data))
    zigzag = [0, -1, 1, -2, 2, -(2**62), 2**62]
    coded = b"".join(pprof._varint((v << 1) ^ (v >> 63)) for v in zigzag)
    assert signed(numbers(coded)).tolist() == zigzag
    assert struct.calcsize("<4sc3xIIIIQQ") == 40

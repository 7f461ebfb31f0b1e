# SPDX-License-Identifier: Apache-2.0
"""A suite on this machine: its packages, its sources, its build, the names of its tests."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path

from ...catalog import debian
from ...catalog.debian_source import fetch_source
from ...catalog.end_with_parent import end_with_parent
from ...model import places
from ...model.errors import SetupError
from ...model.soak import Suite
from ..bounded_process import end_session, output_within

BUILD_LIMIT = 3600.0  # seconds
LIST_LIMIT = 120.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Workshop:
    """The suite as it is ready to run. `key`: a digest of all that determines its results but the malloc library."""

    def __init__(self, suite: Suite, stop: threading.Event, report: Callable[[str], None], only: Sequence[str] = ()):
        """Makes it ready: seconds where that was done before, else minutes. SetupError with one sentence if it cannot.

        `only`: patterns of tests; all without.
        """
        self.suite, self._stop = suite, stop
        if suite.checkout and places.is_installed():
            raise SetupError(f"{suite.name} builds this project and needs its checkout", remedy="Run ./heapyard there.")
        debian.install(suite.packages, report)
        self.folder = places.state() / "soak" / suite.name
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.version, wanted = self._prepare(report)
        told = [self.version, wanted, debian.version("libc6"), suite.list, suite.run, suite.env, self._tools()]
        self.key = hashlib.sha256(json.dumps(told).encode()).hexdigest()
        self.tests = self._list(only)

    @property
    def source(self) -> Path:
        """Where the sources are, and are built."""
        return self.folder / "source"

    def environment(self) -> dict[str, str]:
        """What every script of the suite is given."""
        return {
            "PATH": PATH, "LANG": "C.UTF-8", "TERM": "dumb", "TZ": "UTC", "SOAK_SOURCE": str(self.source),
            "SOAK_FILES": str(self.suite.file.parent), "SOAK_ROOT": str(places.root()), "SOAK_PYTHON": sys.executable,
            **self.suite.env,
        }

    def _prepare(self, report: Callable[[str], None]) -> tuple[str, dict[str, object]]:
        """The version of what was built, and all that decides whether it must be built again."""
        suite = self.suite
        versions = [debian.version(package) for package in suite.packages]
        said = self._script(suite.version, "its version cannot be told", LIST_LIMIT, self.folder) if suite.version else ""
        wanted: dict[str, object] = {"source": suite.source, "build": suite.build, "packages": versions, "said": said}
        stamp = self.folder / "ready.json"
        try:
            kept = json.loads(stamp.read_text())
        except (OSError, ValueError):
            kept = {}
        if kept.get("wanted") != wanted:
            stamp.unlink(missing_ok=True)
            shutil.rmtree(self.source, ignore_errors=True)
            version = fetch_source(suite.source, self.source, report) if suite.source else ""
            if suite.build:
                self.source.mkdir(exist_ok=True)
                report(f"{suite.name}: building {suite.source or 'what its tests need'}")
                self._script(suite.build, "its build failed", BUILD_LIMIT, self.source)
            kept = {"wanted": wanted, "version": version or next(filter(None, versions), "") or said.strip()[:40]}
            stamp.write_text(json.dumps(kept))
        return str(kept["version"]), wanted

    def _tools(self) -> str:
        """A digest of the scripts beside the suite's file."""
        files = sorted((self.suite.file.parent / "scripts").glob("*"))
        return hashlib.sha256(b"".join(file.read_bytes() for file in files if file.is_file())).hexdigest()

    def _list(self, only: Sequence[str]) -> tuple[str, ...]:
        """Those that are not left out. SetupError if there are none."""
        names = dict.fromkeys(self._script(self.suite.list, "its tests cannot be listed", LIST_LIMIT, self.folder).split("\n"))
        left_out = self.suite.left_out
        tests = tuple(name for name in names if name.strip() and not any(fnmatch(name, pattern) for pattern in left_out))
        if not tests:
            raise SetupError(f"the suite {self.suite.name} lists no tests")
        chosen = tuple(name for name in tests if not only or any(fnmatch(name, pattern) for pattern in only))
        if not chosen:
            raise SetupError(f"the suite {self.suite.name} has no test that --only names")
        return chosen

    def _script(self, script: str, failure: str, limit: float, folder: Path) -> str:
        """What it writes. SetupError with its last line if it fails, KeyboardInterrupt if it is to stop."""
        log = self.folder / "build.log"
        env = {**self.environment(), "HOME": str(self.folder), "JOBS": str(len(os.sched_getaffinity(0)))}
        process = subprocess.Popen(
            ["sh", "-euc", script], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, preexec_fn=end_with_parent,
        )
        try:
            written = output_within(process, limit, self._stop)
        finally:
            end_session(process)
        if written is None:
            raise SetupError(f"{self.suite.name}: {failure}: no end after {limit:g} s")
        out, err = (text.decode(errors="replace") for text in written)
        if process.returncode:
            log.write_text(out + err)
            last = next((line.strip() for line in reversed((err or out).splitlines()) if line.strip()), "no reason given")
            raise SetupError(f"{self.suite.name}: {failure}: {last[:160]}", remedy=f"All that it wrote is in {log}.")
        return out

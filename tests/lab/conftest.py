# SPDX-License-Identifier: Apache-2.0
"""Command lines carried out in the tests' own process, with make-believe launches."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli import Said
from yard import FakeLaunch

from heapyard.cli import main
from heapyard.execute.trial import run_trial


@pytest.fixture
def heapyard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Carries out a command line in this process; every launch is the given FakeLaunch, unless it is to be `real`."""
    monkeypatch.setenv("HEAPYARD_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("HEAPYARD_LOCK", str(tmp_path / "lock"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("heapyard.execute.preflight.check", lambda treatments, settings: None)

    real_launch = run_trial

    def run(*arguments: str, launch: FakeLaunch | None = None, real: bool = False) -> Said:
        monkeypatch.setattr("heapyard.execute.trial.run_trial", real_launch if real else launch or FakeLaunch())
        with pytest.raises(SystemExit) as ended:
            main.run(list(arguments))
        captured = capsys.readouterr()
        return Said(ended.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """Options for a second allocator that is there on every machine: a copy of glibc under another name."""
    from heapyard.catalog.allocators import load_allocators

    copy = tmp_path / "libcopy.so"
    copy.write_bytes(load_allocators()["glibc"].library.read_bytes())
    return ["--allocators", "glibc", "--allocator", f"copy={copy}"]

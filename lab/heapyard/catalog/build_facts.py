# SPDX-License-Identifier: Apache-2.0
"""Which build of Heapyard this is: what a reader of a bug report asks first."""

from __future__ import annotations

import subprocess

from .. import __version__
from ..model import places
from ..model.damage import DAMAGE, object_of


def version_line() -> str:
    """`heapyard 0.1.0 (checkout 0123abc with changes; native parts by GNU 12.2.0)`. Two launches of git in a checkout."""
    facts = _of_native_parts()
    compiler = f"native parts by {facts['compiler']}" if facts.get("compiler") else "native parts not built"
    return f"heapyard {__version__} ({_origin(facts.get('commit', ''))}; {compiler})"


def _origin(commit_of_wheel: str) -> str:
    if places.is_installed():
        return f"wheel of {commit_of_wheel}" if commit_of_wheel else "wheel"
    commit = _git("rev-parse", "--short=12", "HEAD")
    if not commit:
        return "checkout without git"
    return f"checkout of {commit}{' with changes' if _git('status', '--porcelain', '--untracked-files=no') else ''}"


def _of_native_parts() -> dict[str, str]:
    try:
        told = object_of((places.built() / "build.json").read_bytes())
        return {name: str(value) for name, value in told.items()}
    except (OSError, *DAMAGE):
        return {}


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", places.root(), *words], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""

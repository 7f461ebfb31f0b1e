# SPDX-License-Identifier: Apache-2.0
"""What fails fails as under glibc: the same answers and the same errno, function by function."""

from __future__ import annotations

import os
import subprocess

import pytest
from heapyard.catalog.own_heaps import own_heaps
from heapyard.model import places


def told(**environment: str) -> list[str]:
    done = subprocess.run(
        [str(places.native("failures"))], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("heap", [heap.name for heap in own_heaps()])
def test_every_function_fails_as_glibc_does(heap: str) -> None:
    expected = told(LD_PRELOAD="")
    assert sum("errno ENOMEM" in line for line in expected) > 100 and "posix_memalign: ENOMEM, errno ENOMEM" in expected
    assert told(LD_PRELOAD=str(places.native(f"lib{heap}.so").resolve())) == expected

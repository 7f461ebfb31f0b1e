# SPDX-License-Identifier: Apache-2.0
"""One reader of parser_targets.py, guided by coverage: `parser_atheris.py READER [libFuzzer's options] [CORPUS]`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["heapyard"]):
    from test_parsers import CORPUS, TARGETS, read


def main() -> None:
    name = sys.argv.pop(1)
    target = TARGETS[name]
    # Beside its own folder the fuzzer begins with the samples, and with what once failed.
    folder = Path(tempfile.mkdtemp(prefix=f"atheris-{name}-"))
    for number, sample in enumerate(target.samples()):
        (folder / f"sample-{number}").write_bytes(sample)
    corpus = [str(path) for path in (folder, CORPUS / name) if path.is_dir()]
    atheris.Setup([*sys.argv, *corpus], lambda data: read(target, data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    os.environ.setdefault("HEAPYARD_LOCK", str(Path(tempfile.gettempdir()) / "heapyard-atheris.lock"))
    main()

# SPDX-License-Identifier: Apache-2.0
"""The steps of a build by Ninja, one by one, each away from the build itself.

`list FOLDER`: the outputs that steps make by running a compiler, an archiver or a linker. `run FOLDER OUTPUT`: makes the
output again, in the current folder, and writes its digest. What it reads are the files that the whole build has made.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path


def edges(folder: Path) -> dict[str, str]:
    """The command of each output."""
    told = subprocess.run(["ninja", "-C", folder, "-t", "compdb"], capture_output=True, text=True, check=True).stdout
    steps = json.loads(told[told.index("["):])
    return {step["output"]: step["command"] for step in steps if "-o " in step["command"] or " qc " in step["command"]}


def run(folder: Path, output: str) -> int:
    """The step in a tree of links to the build's files, in which its output is not yet there."""
    subprocess.run(["cp", "-rs", f"{folder}/.", "."], check=True)
    made = Path(output)
    for written in (made, Path(f"{output}.d")):  # not through the link
        written.unlink(missing_ok=True)
    command = edges(folder)[output]
    if " -c " in command:  # where it was compiled stands in what debuggers read
        command += f" -ffile-prefix-map={os.getcwd()}=."
    code = subprocess.run(["sh", "-c", command]).returncode
    if code == 0:
        print(output, hashlib.sha256(made.read_bytes()).hexdigest())
    return code


if __name__ == "__main__":
    if sys.argv[1] == "list":
        print("\n".join(edges(Path(sys.argv[2]))))
    else:
        sys.exit(run(Path(sys.argv[2]), sys.argv[3]))

# SPDX-License-Identifier: Apache-2.0
"""The closing line of `./heapyard test`: what passed, failed and was not run, from the JUnit files of ctest and pytest.

Exit 1 if a runner failed or a report is missing or empty: silence is not success.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ON_REQUEST = "on request"  # how tests/conftest.py words the reason of a test that only runs with --on-request


@dataclass(slots=True)
class Count:
    """Test cases of one runner by outcome."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    on_request: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped,
                     self.on_request + other.on_request)

    def words(self, name: str) -> str:
        others = [(self.failed, "FAILED"), (self.skipped, "skipped"), (self.on_request, "only on request")]
        return ", ".join([f"{self.passed} {name} passed"] + [f"{n} {what}" for n, what in others if n])


def read_report(path: Path) -> Count:
    """Outcomes in a JUnit file; all zero when there is none. O(cases)."""
    count = Count()
    if not path.is_file():
        return count
    for case in ElementTree.parse(path).iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
        elif skipped is not None:
            reason = skipped.get("message") or ""
            if ON_REQUEST in reason:
                count.on_request += 1
            else:
                count.skipped += 1
        else:
            count.passed += 1
    return count


def main(arguments: list[str]) -> int:
    """`NATIVE_EXIT NATIVE_REPORT PYTHON_EXIT PYTHON_REPORT...`."""
    native_exit, native_report, python_exit, *python_reports = arguments
    native, parts = read_report(Path(native_report)), [read_report(Path(report)) for report in python_reports]
    python = sum(parts, Count())
    good = native_exit == python_exit == "0" and not native.failed and not python.failed
    if not native.passed or not parts or not all(part.passed for part in parts):
        good = False
    verdict = "no test failed" if good else "THE TESTS FAILED"
    exits = "" if good else f" (ctest exit {native_exit}, pytest exit {python_exit})"
    print(f"heapyard: {verdict}{exits}: {native.words('native')}; {python.words('Python and end-to-end')}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

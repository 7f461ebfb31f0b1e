# SPDX-License-Identifier: Apache-2.0
"""The errors a person is meant to read: one sentence, one remedy, one exit code."""

from __future__ import annotations

# Exit codes of the command line, the same for every verb (documented in docs/guide.md).
EXIT_OK = 0
EXIT_DIFFERENCE = 1  # a gate: a regression beyond the limit
EXIT_USAGE = 2  # bad option, malformed file, missing program
EXIT_SETUP = 3  # something must be installed first and we may not do it ourselves
EXIT_FAILED = 4  # the experiment could not be carried out (no trial counted, disk full, ...)
EXIT_INTERRUPTED = 130  # Ctrl-C: what was measured is kept

_LONGEST = 1200  # characters of a sentence, whatever a file had it quote


class HeapyardError(Exception):
    """Anything the command line reports as one sentence on standard error.

    `message` is that sentence, put on one line; `remedy` an optional second sentence that says what to do.
    """

    exit_code = EXIT_FAILED

    def __init__(self, message: str, *, remedy: str | None = None, exit_code: int | None = None):
        self.message = _one_line(message)
        super().__init__(self.message)
        self.remedy = remedy
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(HeapyardError):
    """The request itself is wrong: unknown name, missing program, malformed file."""

    exit_code = EXIT_USAGE


class SetupError(HeapyardError):
    """Something is not installed and cannot be installed without the user."""

    exit_code = EXIT_SETUP


def _one_line(text: str) -> str:
    """Without line ends and control characters, which names in files may hold; the middle of a very long one is left out."""
    text = "".join(char if char.isprintable() else " " for char in text).strip()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"

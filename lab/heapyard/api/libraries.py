# SPDX-License-Identifier: Apache-2.0
"""Before an experiment goes on: are the libraries still those it began with?"""

from __future__ import annotations

import hashlib

from ..model.errors import HeapyardError
from ..model.experiment import Experiment


def check_libraries(experiment: Experiment) -> None:
    """HeapyardError naming the first allocator whose library is gone or has another content.

    O(bytes of the libraries).
    """
    for allocator in {t.allocator.library: t.allocator for t in experiment.treatments}.values():
        if allocator.library is None or not allocator.sha256:
            continue
        try:
            with allocator.library.open("rb") as file:
                now = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise HeapyardError(
                f"{allocator.name}: its library {allocator.library} cannot be read ({error.strerror})"
            ) from None
        if now != allocator.sha256:
            raise HeapyardError(
                f"{allocator.name}: its library {allocator.library} is not the one the experiment began with",
                remedy="Results of two libraries cannot be put together; start a new experiment.",
            )

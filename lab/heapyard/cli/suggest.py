# SPDX-License-Identifier: Apache-2.0
"""Unknown names: the complaint that offers what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

from ..model.errors import UsageError


def near(name: str, known: Iterable[str]) -> list[str]:
    """At most three known names that `name` may have meant: misspellings first, then names that contain it.

    O(known).
    """
    import difflib

    names = list(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.7)
    return (close + [k for k in names if name.lower() in k.lower() and k not in close])[:3]


def unknown(what: str, name: str, known: Iterable[str], remedy: str) -> UsageError:
    """`there is no verb 'compre'; did you mean compare?`, or the remedy alone when nothing is near."""
    close = near(name, known)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return UsageError(f"there is no {what} '{name}'{hint}", remedy=remedy)

# SPDX-License-Identifier: Apache-2.0
"""Reading and writing durations, sizes and percentages as people do: `5m`, `1%`, `12.3 MiB`, `840 ms`, `3 cases`."""

from __future__ import annotations

import math
import re

from .errors import UsageError

_DURATION = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """`90`, `90s`, `5m`, `1h30m`, `250ms` in seconds; UsageError otherwise."""
    total, rest = 0.0, text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", rest):
        total, rest = float(rest), ""
    while rest:
        part = re.match(r"(\d+(?:\.\d+)?)(ms|min|s|m|h)", rest)
        if not part:
            raise UsageError(f"'{text}' is not a duration; write for example 30s, 5m or 1h30m")
        total, rest = total + float(part[1]) * _DURATION[part[2]], rest[part.end() :]
    if not (total > 0 and math.isfinite(total)):
        raise UsageError(f"'{text}' is not a duration above zero")
    return total


def parse_percent(text: str) -> float:
    """`1%` or `0.01` as 0.01; UsageError when it is not in (0, 1)."""
    stripped = text.strip()
    try:
        value = float(stripped[:-1]) / 100 if stripped.endswith("%") else float(stripped)
    except ValueError:
        raise UsageError(f"'{text}' is not a share; write for example 1% or 0.01") from None
    if not 0 < value < 1:
        raise UsageError(f"'{text}' is not between 0 and 100 %")
    return value


def format_duration(seconds: float) -> str:
    """`840 ms`, `3.21 s`, `4 min 05 s`, `2 h 10 min`."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def format_bytes(size: float) -> str:
    """`512 B`, `3.4 KiB`, `12.3 MiB`: binary units, three significant digits."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 999.5 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def format_value(value: float, unit: str) -> str:
    """A metric's value in its own unit, for people."""
    if unit == "s":
        return format_duration(value)
    if unit == "B":
        return format_bytes(value)
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return text if unit == "1" else f"{text} {unit}"


def counted(number: int, noun: str) -> str:
    """`1 case`, `3 cases`: of a noun whose plural takes an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

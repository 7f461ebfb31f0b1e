# SPDX-License-Identifier: Apache-2.0
"""The parts of a study file that say what to look for: `[[figures]]` to draw and `[[claims]]` to test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model.claim import DIRECTIONS, FORMS, KINDS, Claim
from ..model.figure import Figure
from .mutators import Value, level_text
from .toml_file import TomlTable

Factors = Mapping[str, Sequence[Value]]

# What each kind of claim must say besides its text and its metric.
_NEEDS = {
    "grows_like": ("over", "form"),
    "flat_in": ("over", "bounds"),
    "monotone": ("over", "direction"),
    "within": ("bounds",),
    "ranks": ("treatments",),
}


def read_figures(top: TomlTable, factors: Factors) -> tuple[Figure, ...]:
    """`[[figures]]` in the order written; UsageError names file, line and field."""
    found = []
    for table in top.array("figures"):
        over = table.string("over")
        _check_factor(table, "over", over, factors)
        at = table.table("at")
        found.append(
            Figure(
                title=table.string("title"),
                metric=table.string("metric"),
                over=over,
                source=table.string("source", ""),
                x_title=table.string("x_title", ""),
                y_title=table.string("y_title", ""),
                log_x=table.boolean("log_x", False),
                log_y=table.boolean("log_y", False),
                relative=table.boolean("relative", False),
                at={name: _one_level(at, name, factors) for name in at.keys()} if at else {},
            )
        )
        table.finish()
    return tuple(found)


def read_claims(top: TomlTable, factors: Factors) -> tuple[Claim, ...]:
    """`[[claims]]` in the order written; UsageError names file, line and field."""
    found = []
    for table in top.array("claims"):
        kind = table.choice("kind", KINDS, "told")
        for field in ("metric", *_NEEDS.get(kind, ())) if kind != "told" else ():
            if not table.has(field):
                table.fail(field, f"is missing; a claim of kind {kind} needs it")
        over = table.string("over", "")
        if over:
            _check_factor(table, "over", over, factors)
        at = table.table("at")
        found.append(
            Claim(
                text=table.string("text"),
                kind=kind,
                source=table.string("source", ""),
                metric=table.string("metric", ""),
                treatments=table.strings("treatments", ()),
                than=table.strings("than", ()),
                over=over,
                at={name: _some_levels(at, name, factors) for name in at.keys()} if at else {},
                form=table.choice("form", FORMS, "linear"),
                direction=table.choice("direction", DIRECTIONS, "rises"),
                bounds=_bounds(table, kind),
                places=table.integer("places", 1, least=1),
                processors=table.integer("processors", 0, least=0),
            )
        )
        table.finish()
    return tuple(found)


def _bounds(table: TomlTable, kind: str) -> tuple[float, float]:
    value = table.get("bounds", list, "two numbers, the least and the greatest", None)
    if value is None:
        return 0.0, 0.0
    numbers = len(value) == 2 and all(type(v) in (int, float) for v in value)
    if not numbers or value[0] > value[1]:
        table.fail("bounds", "must be two numbers, the least and the greatest")
    if kind == "flat_in" and value[1] <= 1:
        table.fail("bounds", "of a claim flat_in must end above 1: the factor that still counts as flat")
    return float(value[0]), float(value[1])


def _check_factor(table: TomlTable, field: str, name: str, factors: Factors) -> None:
    if name not in factors:
        table.fail(field, f"names '{name}', which is not a factor here; there are {', '.join(factors) or 'none'}")


def _one_level(at: TomlTable, name: str, factors: Factors) -> str:
    _check_factor(at, name, name, factors)
    level = level_text(at.get(name, (str, int, float, bool), "one level"))
    levels = [level_text(other) for other in factors[name]]
    if level not in levels:
        at.fail(name, f"is '{level}', which is not a level of it; there are {', '.join(levels)}")
    return level


def _some_levels(at: TomlTable, name: str, factors: Factors) -> tuple[str, ...]:
    """Levels a claim speaks of; one that this scale does not run is not an error: the claim cannot be told then."""
    _check_factor(at, name, name, factors)
    value = at.get(name, (list, str, int, float, bool), "a level or a list of levels")
    return tuple(level_text(level) for level in (value if isinstance(value, list) else [value]))

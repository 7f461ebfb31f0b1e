# SPDX-License-Identifier: Apache-2.0
"""Values that follow from the levels of factors, such as `{2 * size}`, and conditions on them, such as `size < 64`.

Whole-number arithmetic and comparisons, and nothing else.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Mapping
from typing import Any

from ..model.errors import UsageError

_PLACE = re.compile(r"\{([^{}]*)\}")
_LARGEST = 1 << 62
_LONGEST = 1000  # characters: nesting is bounded by it
_OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}

_COMPARISONS = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def evaluate(text: str, levels: Mapping[str, str]) -> str:
    """`text` with every {formula} replaced by its value; names are factors (a blank or minus in one is written `_`).

    A lone name gives the level as it stands. UsageError for an unknown name, a formula that is none, a level that is no
    whole number, or a value beyond 2^62. O(length).
    """
    named = _named(levels)

    def value(found: re.Match[str]) -> str:
        inner = found[1].strip()
        return named[inner] if inner in named else str(_value(inner, named, text))

    return _PLACE.sub(value, text)


def holds(condition: str, levels: Mapping[str, str]) -> bool:
    """Whether a condition is true at the levels: comparisons of formulas or with words, joined by `and`, `or`, `not`.

    UsageError for an unknown name or what is no condition. O(length).
    """
    named = _named(levels)
    tree = _parsed(condition)
    if tree is None:
        raise UsageError(f"'{condition}' is not a condition")

    def of(node: ast.expr) -> bool:
        if isinstance(node, ast.BoolOp):
            found = [of(value) for value in node.values]
            return all(found) if isinstance(node.op, ast.And) else any(found)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not of(node.operand)
        if isinstance(node, ast.Compare) and all(type(op) in _COMPARISONS for op in node.ops):
            sides = [node.left, *node.comparators]
            return all(
                _COMPARISONS[type(op)](*_alike(left, right, named, condition))
                for op, left, right in zip(node.ops, sides, sides[1:], strict=False)
            )
        raise UsageError(f"'{condition}' is not a condition on the levels of factors")

    return of(tree)


def _alike(left: ast.expr, right: ast.expr, named: Mapping[str, str], condition: str) -> tuple[Any, Any]:
    """Both sides as numbers, or as words when one of them is a word."""

    def word(node: ast.expr) -> str | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        return named[node.id] if isinstance(node, ast.Name) and node.id in named else None

    if any(isinstance(node, ast.Constant) and isinstance(node.value, str) for node in (left, right)):
        words = word(left), word(right)
        if None in words:
            raise UsageError(f"'{condition}' compares a word with what is neither a word nor a factor of this study")
        return words
    return tuple(_value(ast.unparse(node), named, condition) for node in (left, right))  # type: ignore[return-value]


def _parsed(text: str) -> ast.expr | None:
    """None when it is no expression of Python."""
    try:
        return ast.parse(text, mode="eval").body if len(text) <= _LONGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _named(levels: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("-", "_"): level for name, level in levels.items()}


def names_in(text: str) -> set[str]:
    """Names that the formulas of `text` use."""
    return {name for inner in _PLACE.findall(text) for name in re.findall(r"[A-Za-z_]\w*", inner)}


def _value(formula: str, named: Mapping[str, str], text: str) -> int:
    tree = _parsed(formula)
    if tree is None:
        raise UsageError(f"'{{{formula}}}' in '{text}' is not a formula")

    def of(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name) and node.id in named:
            try:
                return int(named[node.id])
            except ValueError:
                raise UsageError(f"the level '{named[node.id]}' of {node.id} is not a whole number") from None
        if isinstance(node, ast.Name):
            raise UsageError(f"'{{{formula}}}' uses '{node.id}', which is not a factor of this study")
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            left, right = of(node.left), of(node.right)
            if isinstance(node.op, ast.Pow) and not 0 <= right <= 62:
                raise UsageError(f"'{{{formula}}}': the exponent {right} is not within 0 to 62")
            if isinstance(node.op, ast.FloorDiv) and right == 0:
                raise UsageError(f"'{{{formula}}}' divides by zero")
            found = _OPERATIONS[type(node.op)](left, right)
            if abs(found) > _LARGEST:
                raise UsageError(f"'{{{formula}}}' is beyond 2^62")
            return found
        raise UsageError(f"'{{{formula}}}' in '{text}' is not a formula of whole numbers")

    return of(tree)

# SPDX-License-Identifier: Apache-2.0
"""Model objects as JSON and back.

Fields a stored object lacks take their default; fields it has too many are ignored.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def encode(thing: object) -> str:
    """JSON text of a model dataclass, or of plain data; keys sorted, so that equal objects give equal text."""
    plain = dataclasses.asdict(thing) if dataclasses.is_dataclass(thing) and not isinstance(thing, type) else thing
    return json.dumps(plain, default=_plain, sort_keys=True, ensure_ascii=False)


def decode(kind: type[T], text: str) -> T:
    """The object of class `kind` that `encode` gave as `text`.

    TypeError or ValueError when the text is of another shape.
    """
    return _build(kind, json.loads(text))


def _plain(thing: object) -> object:
    if isinstance(thing, Path):
        return str(thing)
    if isinstance(thing, (set, frozenset)):
        return sorted(thing)
    raise TypeError(f"{type(thing).__name__} cannot be stored")


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _build(kind: Any, value: Any) -> Any:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _build(next(p for p in parts if p is not types.NoneType), value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind(**{n: _build(h, value[n]) for n, h in _hints(kind).items() if n in value})
    if kind is Path:
        return Path(value)
    if origin is tuple:
        return tuple(_build(parts[0], item) for item in value)
    if kind is float and isinstance(value, int):
        return float(value)
    return value

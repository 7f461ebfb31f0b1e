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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def encode(thing: object) -> str:
    """JSON text of a model dataclass, or of plain data; keys sorted, so that equal objects give equal text."""
    plain = dataclasses.asdict(thing) if dataclasses.is_dataclass(thing) and not isinstance(thing, type) else thing
    return json.dumps(plain, default=_plain, sort_keys=True, ensure_ascii=False)


def decode(kind: type[T], text: str) -> T:
    """The object of class `kind` that `encode` gave as `text`.

    TypeError, ValueError or RecursionError when the text is of another shape.
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
        return kind(**{n: _build(h, value[n]) for n, h in _hints(kind).items() if n in _of(dict, value)})
    if kind is Path:
        return Path(value)
    if origin is tuple:
        each = (parts[0],) * len(value) if parts[-1] is Ellipsis else parts
        return tuple(_build(of, item) for of, item in zip(each, _of(list, value), strict=True))
    if origin in (dict, Mapping):
        return {_build(parts[0], key): _build(parts[1], item) for key, item in _of(dict, value).items()}
    if origin is typing.Literal:
        return _among(parts, value)
    if kind is float and type(value) is int:
        return float(value)
    return _of(kind, value) if isinstance(kind, type) else value


def _of(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind in (int, float)):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _among(words: tuple[Any, ...], value: Any) -> Any:
    if value not in words:
        raise ValueError(f"{value!r} is none of {', '.join(map(str, words))}")
    return value

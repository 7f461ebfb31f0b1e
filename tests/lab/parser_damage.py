# SPDX-License-Identifier: Apache-2.0
"""Damage to files, done with knowledge of their form: bytes, lines, trees of values, the parts of a container.

A `Hit` is a few numbers that hypothesis draws, and makes smaller; what it does to a sample follows from them alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st


@dataclass(frozen=True, slots=True)
class Hit:
    """One damage: which (`how`), where (`at`) and with what (`what`); each is taken modulo what there is to choose from."""

    how: int
    at: int
    what: int


HITS = st.lists(st.builds(Hit, st.integers(0, 63), st.integers(0, 1 << 24), st.integers(0, 1 << 16)), min_size=1, max_size=4)

Damage = Callable[[bytes, Hit], bytes]

# Little-endian numbers that lengths, counts and offsets are replaced by: 0, 1, -1, the largest and the smallest, odd ones.
_NUMBERS = [n.to_bytes(width, "little", signed=n < 0) for width in (1, 2, 4, 8)
            for n in (0, 1, -1, (1 << 8 * width - 1) - 1, -(1 << 8 * width - 1), 0x7F)]
_LEB = [b"\x80" * 9 + b"\x01", b"\xff" * 10, b"\xff" * 9 + b"\x7f", b"\x80" * 64, b"\xff\xff\xff\xff\x0f", b"\x80"]


def bytes_hit(data: bytes, hit: Hit) -> bytes:
    """Flipped, replaced, cut, doubled, taken out, moved."""
    at = hit.at % (len(data) + 1)
    length = 1 + hit.what % 32
    match hit.how % 8:
        case 0:
            return data[:at] + bytes([byte ^ 1 << hit.what % 8 for byte in data[at : at + 1]]) + data[at + 1 :]
        case 1:
            return data[:at] + bytes([hit.what % 256]) + data[at + 1 :]
        case 2:
            number = _NUMBERS[hit.what % len(_NUMBERS)]
            return data[:at] + number + data[at + len(number) :]
        case 3:
            return data[:at]
        case 4:
            return data[:at] + data[at : at + length] + data[at:]
        case 5:
            return data[:at] + data[at + length :]
        case 6:
            return data[:at] + _LEB[hit.what % len(_LEB)] + data[at:]
        case _:
            other = hit.what % (len(data) + 1)
            return data[:at] + data[other : other + length] + data[at + length :]


_WORDS = ["", "0", "-1", "1e999", "nan", "-0", "18446744073709551616", "9" * 5000, "\u0661\u00b2", "\0", "\x0b", "\u2028",
          "\t", "~nobody/x", "(" * 3000, "=" * 40, "'", '"', "\\", "{", "a" * 100_000, "../../x", "%s", "0-99999999999", "🦊"]


def lines_hit(data: bytes, hit: Hit) -> bytes:
    """The same of lines, and of the words in them."""
    lines = data.split(b"\n")
    at = hit.at % len(lines)
    words = lines[at].split(b" ")
    word = hit.what % len(words)
    match hit.how % 8:
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[hit.what % len(lines)])
        case 2:
            lines[at], lines[hit.what % len(lines)] = lines[hit.what % len(lines)], lines[at]
        case 3:
            del words[word]
        case 4:
            words.insert(word, words[hit.at % len(words)])
        case 5:
            lines[at] += b"\r"
        case _:
            words[word] = _WORDS[hit.what // 7 % len(_WORDS)].encode()
    if hit.how % 8 in (3, 4, 6, 7):
        lines[at] = b" ".join(words)
    return b"\n".join(lines)


def _deep(depth: int, as_list: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if as_list else {"a": value}
    return value


_VALUES: list[Any] = [None, True, False, 0, -1, 1 << 31, 1 << 63, -(1 << 63), 10**30, 10**400, 0.5, -0.0, 1e308, math.nan, math.inf,
                      -math.inf, *_WORDS, [], {}, [[]], [None], [1, "a", {}], {"": ""}, {"a b": 1}, [""] * 3,
                      _deep(200, True), _deep(200, False)]


def tree_hit(tree: Any, hit: Hit) -> Any:
    """A tree of dictionaries and lists with one value of another kind, missing, doubled, swapped, or unknown."""
    tree = deepcopy(tree)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            places.append((node, key))
            walk(node[key])

    walk(tree)
    if not places or hit.how % 16 == 15:
        return deepcopy(_VALUES[hit.what % len(_VALUES)])
    node, key = places[hit.at % len(places)]
    other, other_key = places[hit.what % len(places)]
    match hit.how % 8:
        case 0:
            del node[key]
        case 1:
            added = deepcopy(_VALUES[hit.what % len(_VALUES)])
            if isinstance(node, dict):
                node[_WORDS[hit.what // 7 % len(_WORDS)]] = added
            else:
                node.append(added)
        case 2:
            node[key], other[other_key] = deepcopy(other[other_key]), deepcopy(node[key])
        case 3:
            node[key] = deepcopy(other[other_key])
        case 4:
            node[key] = [node[key], deepcopy(node[key])]
        case _:
            node[key] = deepcopy(_VALUES[hit.what % len(_VALUES)])
    return tree


def json_hit(data: bytes, hit: Hit) -> bytes:
    """A JSON text damaged as a tree where it is one, else as bytes; and now and then nested beyond all measure."""
    if hit.how == 63:
        return b"[" * 100_000
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return bytes_hit(data, hit)
    return json.dumps(tree_hit(tree, hit), ensure_ascii=bool(hit.what % 2)).encode(errors="surrogatepass")


def toml_hit(data: bytes, hit: Hit) -> bytes:
    """The same of TOML."""
    import tomllib

    if hit.how == 63:
        return b"a = " + b"[" * 100_000
    try:
        tree = tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        return bytes_hit(data, hit)
    tree = tree_hit(tree, hit)
    return as_toml(tree if isinstance(tree, dict) else {"study": tree}).encode()


def as_toml(tree: dict[str, Any]) -> str:
    """The text of a tree: one line per key, or per table of a list; what TOML has no word for is left out."""
    lines = []
    for key, value in tree.items():
        if isinstance(value, dict):
            lines += [f"[{json.dumps(key)}]", *(f"{json.dumps(k)} = {_inline(v)}" for k, v in value.items() if v is not None)]
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            for item in value:
                lines += [f"[[{json.dumps(key)}]]", *(f"{json.dumps(k)} = {_inline(v)}" for k, v in item.items() if v is not None)]
        elif value is not None:
            lines.insert(0, f"{json.dumps(key)} = {_inline(value)}")
    return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_inline(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value if item is not None) + "]"
    if isinstance(value, float):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan" if math.isnan(value) else repr(value))
    return json.dumps(value, ensure_ascii=isinstance(value, str) and "\0" in value)


@dataclass(frozen=True, slots=True)
class Container:
    """A file of parts with lengths and checksums around them, so that damage of a part reaches what reads the part.

    `apart` and `together` are each other's inverse; the latter makes the lengths and checksums anew. `inner` damages a part.
    """

    apart: Callable[[bytes], Sequence[Any]]
    together: Callable[[Sequence[Any]], bytes]
    inner: Callable[[Any, Hit], Any]

    def __call__(self, data: bytes, hit: Hit) -> bytes:
        parts = list(self.apart(data))
        at, other = hit.at % len(parts), hit.what % len(parts)
        match hit.how % 16:
            case 0:
                del parts[at]
            case 1:
                parts.insert(other, parts[at])
            case 2:
                parts[at], parts[other] = parts[other], parts[at]
            case _:
                parts[at] = self.inner(parts[at], Hit(hit.how // 2, hit.at // len(parts), hit.what))
        return self.together(parts)


def damaged(sample: bytes, hits: Sequence[Hit], form: Damage) -> bytes:
    """The sample after all hits: one in four is of mere bytes, whatever the form, and comes last."""
    for hit in sorted(hits, key=lambda hit: hit.what % 4 == 3):
        sample = (bytes_hit if hit.what % 4 == 3 else form)(sample, hit)
    return sample

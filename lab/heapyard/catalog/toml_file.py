# SPDX-License-Identifier: Apache-2.0
"""Reading TOML that people write by hand: every complaint names the file, the line and the field."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ..model.errors import UsageError

Word = TypeVar("Word", bound=str)


class TomlTable:
    """One table of a file. Readers check the type; `finish` complains about fields nobody read. O(file) per complaint."""

    def __init__(self, path: Path, text: str, values: dict[str, Any], name: str = "", nth: int = 0):
        self.path, self.name = path, name
        self._text, self._values, self._read, self._nth = text, values, set[str](), nth

    def fail(self, field: str, complaint: str) -> NoReturn:
        where = f"{self.name}.{field}" if self.name else field
        raise UsageError(f"{self.path}:{self._line(field)}: field '{where}' {complaint}")

    def _line(self, field: str) -> int:
        # tomllib keeps no positions: find the innermost header of the table's name, then the key below it.
        lines, start, parts = self._text.splitlines(), 0, self.name.split(".") if self.name else []
        for depth in range(len(parts), 0, -1):
            name = r"\s*\.\s*".join(rf'"?{re.escape(part)}"?' for part in parts[:depth])
            headers = [i for i, line in enumerate(lines) if re.match(rf"\s*\[+\s*{name}\s*\]+", line)]
            if headers:
                start = headers[min(self._nth, len(headers) - 1)]
                break
        key = re.compile(
            rf'\s*([\w"-]+\s*\.\s*)*"?{re.escape(field)}"?\s*[=.]|.*[{{,]\s*"?{re.escape(field)}"?\s*='
            rf'|\s*\[+.*\b{re.escape(field)}"?\s*\]+'
        )
        return next((i for i in range(start, len(lines)) if key.match(lines[i])), start) + 1

    def has(self, field: str) -> bool:
        return field in self._values

    def keys(self) -> list[str]:
        return list(self._values)

    def get(self, field: str, kind: type | tuple[type, ...], wanted: str, default: Any = ...) -> Any:
        self._read.add(field)
        if field not in self._values:
            if default is ...:
                self.fail(field, f"is missing; it must be {wanted}")
            return default
        value = self._values[field]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kind) or (isinstance(value, bool) and bool not in kinds):
            self.fail(field, f"must be {wanted}, not {value!r}")
        if not isinstance(value, dict):
            self._check(field, value)
        return value

    def _check(self, field: str, value: Any) -> None:
        """TOML's own reader lets pass what nothing here can use."""
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            self.fail(field, "has more than 64 bits")
        if isinstance(value, float) and not math.isfinite(value):
            self.fail(field, f"must be a finite number, not {value}")
        if isinstance(value, str) and "\0" in value:
            self.fail(field, "holds a NUL character")
        if isinstance(value, list):
            for item in value:
                self._check(field, item)

    def string(self, field: str, default: Any = ...) -> str:
        return self.get(field, str, "a string", default)

    def choice(self, field: str, choices: tuple[Word, ...], default: Any = ...) -> Word:
        """One of a few words."""
        value = self.get(field, str, "a string", default)
        if value not in choices and value is not default:
            self.fail(field, f"must be one of {', '.join(choices)}, not '{value}'")
        return value

    def integer(self, field: str, default: Any = ..., *, least: int | None = None) -> int:
        value = self.get(field, int, "a whole number", default)
        if least is not None and value is not default and value < least:
            self.fail(field, f"must be at least {least}, not {value}")
        return value

    def number(self, field: str, default: Any = ...) -> float:
        return self.get(field, (int, float), "a number", default)

    def boolean(self, field: str, default: Any = ...) -> bool:
        return self.get(field, bool, "true or false", default)

    def strings(self, field: str, default: Any = ...) -> tuple[str, ...]:
        value = self.get(field, list, "a list of strings", default)
        if value is default:
            return value
        if not all(isinstance(item, str) for item in value):
            self.fail(field, f"must be a list of strings, not {value!r}")
        return tuple(value)

    def mapping(self, field: str) -> dict[str, str]:
        """A table of strings, such as an environment; empty when absent."""
        value = self.get(field, dict, "a table of strings", {})
        if not all(isinstance(item, str) for item in value.values()):
            self.fail(field, "must be a table of strings")
        if any("\0" in name + item for name, item in value.items()):
            self.fail(field, "holds a NUL character")
        return dict(value)

    def place(self, field: str, default: Any = ...) -> Path:
        """A path, relative ones from the file's folder; `~` and `~name` are homes."""
        text = self.string(field, default)
        try:
            return self.path.absolute().parent / Path(text).expanduser()
        except RuntimeError:
            self.fail(field, f"names the home of a user that there is not: {text}")

    def table(self, field: str) -> TomlTable | None:
        """A sub-table, None when absent."""
        value = self.get(field, dict, "a table", None)
        if value is None:
            return None
        return TomlTable(self.path, self._text, value, f"{self.name}.{field}" if self.name else field)

    def tables(self) -> dict[str, TomlTable]:
        """Every value of this table as a sub-table, by name: for `[allocator.mine]`, `[allocator.other]`."""
        found = {name: self.table(name) for name in self._values}
        return {name: table for name, table in found.items() if table is not None}

    def array(self, field: str) -> list[TomlTable]:
        """The tables of `[[field]]`, in the order written; empty when absent."""
        values = self.get(field, list, f"a list of tables [[{field}]]", [])
        if not all(isinstance(value, dict) for value in values):
            self.fail(field, f"must be a list of tables [[{field}]]")
        name = f"{self.name}.{field}" if self.name else field
        return [TomlTable(self.path, self._text, value, name, nth) for nth, value in enumerate(values)]

    def overlaid(self, over: TomlTable) -> TomlTable:
        """This table with the fields of `over` in place of its own, tables merged field by field."""
        return TomlTable(self.path, self._text, _merged(self._values, over._values), self.name, self._nth)

    def without(self, field: str) -> TomlTable:
        """This table as if it had no such field."""
        rest = {name: value for name, value in self._values.items() if name != field}
        return TomlTable(self.path, self._text, rest, self.name, self._nth)

    def finish(self) -> None:
        """Complain about the first field that nothing read: a misspelling, most likely."""
        unknown = [field for field in self._values if field not in self._read]
        if unknown:
            known = ", ".join(sorted(self._read))
            self.fail(unknown[0], f"is not known here; known are {known}")


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    def one(name: str) -> Any:
        both = isinstance(below.get(name), dict) and isinstance(above.get(name), dict)
        return _merged(below[name], above[name]) if both else above.get(name, below.get(name))

    return {name: one(name) for name in {**below, **above}}


def read_toml(path: Path) -> TomlTable:
    """The file's top table. UsageError when it cannot be read or is not TOML (with the line)."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text") from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at line (\d+)", str(error))
        line = place[1] if place else str(max(1, text.count("\n")))
        raise UsageError(f"{path}:{line}: is not valid TOML: {str(error).split(' (at')[0].lower()}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: is not valid TOML: a number too long, or tables too deep") from None
    return TomlTable(path, text, values)

# SPDX-License-Identifier: Apache-2.0
"""Writes base/shared.hpp and lab/heapyard/model/shared.py from base/shared.toml. With --check it only compares."""

from __future__ import annotations

import re
import struct
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LICENCE = "SPDX-License-Identifier: Apache-2.0"
C_TYPES = {"c": "char", "I": "std::uint32_t", "Q": "std::uint64_t"}


def constant_name(name: str) -> str:
    """As C++ has it here: TRACE_MAGIC becomes kTraceMagic."""
    return "k" + "".join(word.capitalize() for word in name.split("_"))


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


def literal(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def comment(text: str, mark: str) -> list[str]:
    return textwrap.wrap(text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."), 118, initial_indent=mark,
                         subsequent_indent=mark)


def header(facts: dict[str, Any]) -> str:
    """The facts as C++."""
    out = [f"// {LICENCE}", "// What native parts and the lab agree on. Made by base/write_shared.py from base/shared.toml.",
           "#pragma once", "", "#include <cstdint>", "", "namespace heapyard::shared {", ""]
    for name, fact in facts["constants"].items():
        out += comment(fact["about"], "// ")
        if isinstance(fact["value"], str):  # an array, which ends with a zero for those who want one
            out.append(f"inline constexpr char {constant_name(name)}[] = {literal(fact['value'])};")
        else:
            out.append(f"inline constexpr std::uint64_t {constant_name(name)} = {fact['value']};")
    for name, fact in facts["enumerations"].items():
        letters = any(isinstance(value, str) for _, value, _ in fact["values"])
        out += ["", *comment(fact["about"], "// "), f"enum class {name} : {'char' if letters else 'std::uint32_t'} {{"]
        lines = [(f"  {constant_name(key)} = {value!r},", about) for key, value, about in fact["values"]]
        width = max(len(line) for line, _ in lines)
        out += [f"{line:{width}}  // {about}" for line, about in lines]
        out.append("};")
    for name, fact in facts["records"].items():
        out += ["", *comment(fact["about"], "// "), f"struct {name} {{"]
        for field, kind in fact["fields"]:
            array = re.fullmatch(r"(\d+)s", kind)
            out.append(f"  char {field}[{array[1]}];" if array else f"  {C_TYPES[kind]} {field};")
        out += ["};", f"static_assert(sizeof({name}) == {struct.calcsize(layout(fact))});"]
    return "\n".join([*out, "", "}  // namespace heapyard::shared", ""])


def layout(fact: dict[str, Any]) -> str:
    return "<" + "".join(kind for _, kind in fact["fields"])


def module(facts: dict[str, Any]) -> str:
    """The facts as Python."""
    about = '"""What native parts and the lab agree on. Made by base/write_shared.py from base/shared.toml."""'
    imports = ("import struct", "from enum import IntEnum, StrEnum", "from typing import NamedTuple")
    out = [f"# {LICENCE}", about, "", "from __future__ import annotations", "", *imports, ""]
    for name, fact in facts["constants"].items():
        value = literal(fact["value"]) if isinstance(fact["value"], str) else fact["value"]
        out += [*comment(fact["about"], "# "), f"{name} = {value}"]
    for name, fact in facts["enumerations"].items():
        letters = any(isinstance(value, str) for _, value, _ in fact["values"])
        out += ["", "", f"class {name}({'StrEnum' if letters else 'IntEnum'}):", f'    """{fact["about"]}"""', ""]
        out += [f"    {key} = {literal(value) if letters else value}  # {about}" for key, value, about in fact["values"]]
    for name, fact in facts["records"].items():
        about = comment(fact["about"], "    ")
        out += ["", "", f"class {name}(NamedTuple):", '    """' + about[0].strip(), *about[1:], '    """', ""]
        out += [f"    {field}: {'bytes' if kind[-1] in 'sc' else 'int'}" for field, kind in fact["fields"]]
        out += ["", "", f"{snake(name)} = struct.Struct({literal(layout(fact))})"]
    return "\n".join([*out, ""])


def outdated() -> dict[Path, str]:
    """The files that are not what the facts say, with what they should be."""
    facts = tomllib.loads((ROOT / "base" / "shared.toml").read_text())
    wanted = {ROOT / "base" / "shared.hpp": header(facts), ROOT / "lab" / "heapyard" / "model" / "shared.py": module(facts)}
    return {path: text for path, text in wanted.items() if not path.exists() or path.read_text() != text}


if __name__ == "__main__":
    stale = outdated()
    if "--check" in sys.argv:
        sys.exit("\n".join(f"{path.relative_to(ROOT)} is not what base/shared.toml says" for path in stale) or 0)
    for path, text in stale.items():
        path.write_text(text)

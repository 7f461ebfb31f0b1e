# SPDX-License-Identifier: Apache-2.0
"""The user's own command: found as a shell finds it, and every reason it cannot be measured told in one sentence."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from heapyard.catalog.program_command import program_from_command
from heapyard.model.errors import UsageError


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def script(path: Path, text: str, mode: int = 0o755) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def compiled(path: Path, *options: str) -> Path:
    source = "int main(void) { return 0; }"
    subprocess.run(["gcc", "-x", "c", "-", "-o", path, *options], input=source, text=True, check=True)
    return path


def refusal(*argv: str, **options: object) -> UsageError:
    with pytest.raises(UsageError) as caught:
        program_from_command(argv, **options)
    assert "\n" not in caught.value.message
    return caught.value


def test_a_command_is_taken_as_it_stands(here):
    (here / "in.txt").write_text("x")
    program = program_from_command(["awk", "{dir} {print} {port}"], stdin=Path("in.txt"), env={"A": "{dir}"})
    assert program.command == (shutil.which("awk"), "{dir} {print} {port}")
    assert program.literal and program.inherit_env and program.argv0 == "awk" and program.name == "awk"
    assert (program.stdin, program.cwd, program.env) == (here / "in.txt", here, {"A": "{dir}"})
    assert (program.answer.exit_code, program.answer.output) == (0, "consistent")


def test_options_reach_the_program(here):
    program = program_from_command(["false"], expect_exit=1, check="exit", name="no", cwd=Path("/"))
    assert (program.name, program.cwd) == ("no", Path("/"))
    assert (program.answer.exit_code, program.answer.output) == (1, "ignore")


def test_a_relative_path_starts_at_the_working_folder(here):
    (here / "sub").mkdir()
    script(here / "sub" / "run", "#!/bin/sh\n")
    assert program_from_command(["./run"], cwd=here / "sub").command == (str(here / "sub" / "run"),)


def test_symbolic_links_stay_since_programs_look_at_their_name(here):
    (here / "applet").symlink_to("/bin/sh")
    assert program_from_command(["./applet"]).command[0] == str(here / "applet")


def test_missing_programs(here):
    assert refusal("no-such-program").message == "no program 'no-such-program' in PATH"
    assert refusal("./no-such-program").message == "there is no file './no-such-program'"
    script(here / "tool", "#!/bin/sh\n")
    assert refusal("tool").remedy == f"To run the one in {here}, write ./tool."
    assert "no command after --" in refusal().message
    assert "no command after --" in refusal("").message


def test_a_dangling_link(here):
    (here / "link").symlink_to("nowhere")
    assert "cannot be run: no such file" in refusal("./link").message


def test_a_folder(here):
    assert refusal(str(here)).message == f"'{here}' is a folder, not a program"


def test_a_file_that_is_not_executable(here):
    script(here / "tool", "#!/bin/sh\n", mode=0o644)
    error = refusal("./tool")
    assert error.message == f"'{here / 'tool'}' is not executable" and error.remedy == f"Run: chmod +x {here / 'tool'}"


@pytest.mark.parametrize(("text", "wanted"), [
    ("#!/no/such/interpreter -x\n", "asks for the interpreter /no/such/interpreter, which does not exist"),
    ("#!/usr/bin/env no-such-interpreter\n", "asks env for the interpreter no-such-interpreter, which is not in PATH"),
    ("#!/usr/bin/env -S no-such-interpreter -u\n", "asks env for the interpreter no-such-interpreter, which is not"),
    ("#!\n", "names no interpreter"),
    ("#!/bin/sh\r\necho\r\n", "Windows line ends"),
    ("echo no first line\n", "neither an ELF program nor a script"),
    ("", "neither an ELF program nor a script"),
])
def test_broken_scripts(here, text, wanted):
    script(here / "tool", text)
    assert wanted in refusal("./tool").message


def test_scripts_that_work(here):
    script(here / "one", "#! /bin/sh -e\n")
    script(here / "two", f"#!/usr/bin/env {sys.executable}\n")
    script(here / "three", f"#!{here / 'one'}\n")
    for name in ("one", "two", "three"):
        assert program_from_command([f"./{name}"]).command == (str(here / name),)


def test_scripts_in_a_circle(here):
    script(here / "tool", f"#!{here / 'tool'}\n")
    assert "in a circle" in refusal("./tool").message


def test_a_static_program_and_a_script_run_by_one(here):
    compiled(here / "static", "-static", "-nostartfiles", "-Wl,-e,main")
    assert "is statically linked" in refusal("./static").message
    script(here / "tool", f"#!{here / 'static'}\n")
    assert "interpreter that cannot be measured" in refusal("./tool").message
    assert "is statically linked" in refusal("./tool").message


def test_a_dynamic_program_is_welcome_with_or_without_a_fixed_address(here):
    compiled(here / "pie", "-pie", "-fPIE")
    compiled(here / "fixed", "-no-pie")
    assert program_from_command(["./pie"]).command and program_from_command(["./fixed"]).command


def test_a_library_is_no_program(here):
    compiled(here / "lib.so", "-shared", "-fPIC")
    assert refusal("./lib.so").message.endswith("is a library, not a program")


@pytest.mark.parametrize(("bit", "word"), [(0o4000, "setuid"), (0o2000, "setgid")])
def test_privileged_programs(here, bit, word):
    compiled(here / "tool")
    (here / "tool").chmod(0o755 | bit)
    error = refusal("./tool")
    assert f"is {word}: the dynamic linker injects no library" in error.message
    assert error.remedy == f"Measure a copy without that: cp {here / 'tool'} ./tool.plain"


def test_file_capabilities(here, monkeypatch):
    compiled(here / "tool")
    monkeypatch.setattr(os, "getxattr", lambda path, name: b"\1" if name == "security.capability" else b"")
    assert "is given file capabilities" in refusal("./tool").message


def test_another_machines_program(here):
    image = bytearray(compiled(here / "tool").read_bytes())
    image[18:20] = struct.pack("<H", 243)
    (here / "tool").write_bytes(image)
    assert "is a 64-bit riscv program; the libraries here are" in refusal("./tool").message


def test_a_truncated_program(here):
    compiled(here / "tool")
    os.truncate(here / "tool", 40)
    assert "truncated" in refusal("./tool").message


def test_a_missing_dynamic_linker(here):
    compiled(here / "tool", "-Wl,--dynamic-linker=/no/such/ld.so")
    assert "asks for the dynamic linker /no/such/ld.so, which does not exist" in refusal("./tool").message


def test_wrong_surroundings(here):
    (here / "file").write_text("")
    assert "standard input" in refusal("true", stdin=here / "none").message
    assert "is a folder" in refusal("true", stdin=here).message
    assert "does not exist" in refusal("true", cwd=here / "none").message
    assert "is not a folder" in refusal("true", cwd=here / "file").message
    assert "--allocator" in refusal("true", env={"LD_PRELOAD": "libx.so"}).message

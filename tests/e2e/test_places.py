# SPDX-License-Identifier: Apache-2.0
"""Where Heapyard runs: full disks, folders that cannot be written, no terminal, narrow terminals, no colour."""

from __future__ import annotations

import os
import pty
import re
import resource
import select
import subprocess
import sys
import time

import pytest
from e2e_yard import PATIENCE, one_sentence, program, shim

FAILED = 4
UNSHARE = ["unshare", "--user", "--map-root-user", "--mount"] if os.geteuid() else ["unshare", "--mount"]


def within_mounts(yard, mounts: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The command where a shell has first mounted something that only it and its children see."""
    script = f'{mounts} && exec "$@"'
    return subprocess.run(
        [*UNSHARE, "sh", "-ec", script, "sh", *yard.command(*arguments)],
        env=yard.env,
        cwd=yard.folder,
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )


def test_a_full_disk_is_said_in_one_sentence(yard):
    """A file system of 512 KiB holds the beginning of an experiment and no more; with room, resume ends it."""
    yard.results.mkdir()
    keep = yard.folder / "kept"
    script = f"mount -t tmpfs -o size=512k tmpfs {yard.results}"
    arguments = yard.comparison(program("naps"), 5, blocks=60)
    result = subprocess.run(
        [
            *UNSHARE,
            "sh",
            "-ec",
            f'{script}; "$@" || code=$?; cp -r {yard.results} {keep}; exit $code',
            "sh",
            *yard.command(*arguments),
        ],
        env=yard.env,
        cwd=yard.folder,
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )
    assert result.returncode == FAILED, result.stderr
    sentence = one_sentence(result)
    assert "full" in sentence or "space" in sentence
    resumed = yard.run("resume", env={"HEAPYARD_RESULTS": str(keep)})
    assert resumed.returncode == 0, resumed.stderr


def test_a_disk_that_is_full_from_the_start(yard):
    yard.results.mkdir()
    result = within_mounts(
        yard, f"mount -t tmpfs -o size=4k,nr_inodes=2 tmpfs {yard.results}", *yard.comparison(program("naps"), 5)
    )
    assert result.returncode == FAILED
    assert str(yard.results) in one_sentence(result)


def test_files_that_may_not_grow(yard):
    """A limit on the size of files, as a shared machine may set."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (96 << 10, 96 << 10))  # noqa: E731
    result = yard.compare(program("naps"), 5, blocks=60, preexec_fn=limit)
    assert result.returncode == FAILED
    assert "Traceback" not in result.stderr and one_sentence(result)


def test_a_read_only_folder(yard):
    yard.results.mkdir()
    mount = f"mount -t tmpfs tmpfs {yard.results}; mount -o remount,ro {yard.results}"
    result = within_mounts(yard, mount, *yard.comparison(program("naps"), 5))
    assert result.returncode == FAILED
    assert str(yard.results) in one_sentence(result) and "read-only" in one_sentence(result).lower()


def test_a_file_where_the_results_should_be(yard):
    yard.results.write_text("")
    result = yard.compare(program("naps"), 5)
    assert result.returncode == FAILED and str(yard.results) in one_sentence(result)


def test_a_working_directory_that_is_gone(yard, tmp_path):
    gone = tmp_path / "gone"
    script = f'mkdir {gone} && cd {gone} && rmdir {gone} && exec "$@"'
    result = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-I", "-m", "heapyard", "results"],
        env=yard.env,
        text=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    assert "Traceback" not in result.stderr and "unexpected" not in result.stderr


def on_terminal(yard, columns: int, *arguments: object, **env: str) -> str:
    """Everything a terminal of that width was sent."""
    import fcntl
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = (
        {k: v for k, v in yard.env.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        | {"TERM": "xterm-256color"}
        | env
    )
    process = subprocess.Popen(
        yard.command(*arguments),
        env=environment,
        cwd=yard.folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    text, end = b"", time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if not select.select([master], [], [], 1)[0]:
            continue
        try:
            piece = os.read(master, 65536)
        except OSError:  # the last one closed it
            break
        if not piece:
            break
        text += piece
    os.close(master)
    assert process.wait(timeout=30) == 0, text.decode(errors="replace")
    return text.decode(errors="replace")


ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|4[0-7]|38;|48;)[0-9;]*m")


def widest(text: str) -> int:
    """Of the lines as they stay on the screen: what a carriage return overwrites does not count.

    Commands to copy, after `$`, are never folded and do not count either.
    """
    from rich.cells import cell_len

    pieces = [ESCAPE.sub("", piece) for line in text.split("\n") for piece in line.split("\r")]
    return max(cell_len(piece) for piece in pieces if not piece.lstrip().startswith("$ "))


@pytest.fixture
def measured(yard):
    """A user with one finished experiment."""
    assert yard.compare(program("naps"), 5, blocks=3).returncode == 0
    return yard


@pytest.mark.parametrize("columns", [80, 60])
def test_terminals_are_not_overrun(measured, columns):
    for verb in (["show", "last"], ["results"], ["doctor", "--no-noise"]):
        assert widest(on_terminal(measured, columns, *verb)) <= columns, verb


def test_progress_fits_eighty_columns(yard):
    """A line that moves must fit, or every movement leaves a copy; remarks that stay may be folded."""
    text = on_terminal(yard, 80, *yard.comparison(program("naps"), 20, blocks=3))
    assert widest("\n".join(line for line in text.split("\n") if not line.startswith("heapyard: "))) <= 80
    assert "glibc" in ESCAPE.sub("", text)


def test_no_color_means_no_colour(yard):
    """Of an experiment with a failure to show, which is red where there is colour."""
    assert yard.compare(program("mallocs"), 3000, 100, own={"faulty": shim("enomem")}, blocks=2).returncode == 0
    assert COLOUR.search(on_terminal(yard, 80, "show", "last")), "there is colour to leave out"
    assert not COLOUR.search(on_terminal(yard, 80, "show", "last", NO_COLOR="1"))


def test_without_a_terminal_there_are_plain_lines(yard):
    result = yard.compare(program("naps"), 5, blocks=3)
    assert result.returncode == 0
    assert "\x1b" not in result.stdout + result.stderr and "\r" not in result.stdout + result.stderr
    assert "glibc" in result.stdout


def test_an_ascii_locale_is_no_reason_to_fail(measured):
    result = measured.run(
        "show", "last", env={"LC_ALL": "C", "PYTHONIOENCODING": "", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    )
    assert result.returncode == 0, result.stderr

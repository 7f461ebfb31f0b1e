# SPDX-License-Identifier: Apache-2.0
"""The catalog of real programs: every card, what malformed ones are told, preparing, installing, the command line."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from heapyard.catalog import debian, programs
from heapyard.catalog.measured import measured
from heapyard.catalog.program_card import AREAS, fill
from heapyard.catalog.programs import (
    command_lines, find_card, install_programs, load_programs, prepare_program, split_size,
)
from heapyard.cli import programs as cli
from heapyard.model.errors import SetupError, UsageError

CARD = """
title = "A card"
area = "tool"
about = "For tests."
command = ["sh", "-c", "echo {words}"]

[answer]
output = "same"

[sizes.quick]
words = 3
digest = "{digest}"
""".replace("{digest}", "0" * 64)


@pytest.fixture
def catalog(tmp_path, monkeypatch):
    """An empty catalog of programs in a checkout of its own; returns the folder of its cards."""
    folder = tmp_path / "checkout" / "programs"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HEAPYARD_ROOT", str(folder.parent))
    monkeypatch.setenv("HEAPYARD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return folder


def write(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.toml").write_text(text)


def complaint(folder: Path, text: str) -> str:
    write(folder, "card", text)
    with pytest.raises(UsageError) as caught:
        load_programs()
    return caught.value.message.removeprefix(f"{folder}/")


def test_every_card_of_the_catalog_is_whole():
    cards = load_programs()
    assert len(cards) >= 12
    for name, card in cards.items():
        assert name == card.name and re.fullmatch(r"[a-z][a-z0-9]*", name)
        assert card.title and card.about.strip() and card.area in AREAS
        assert set(card.sizes) == {"quick", "full"}
        assert card.packages or card.modules or card.command[0].startswith("{bin}/")
        assert all(len(line) <= 130 for line in card.about.splitlines())


def test_the_default_set_is_small_and_covers_kinds_of_programs():
    quick = [card for card in load_programs().values() if card.quick]
    assert 7 <= len(quick) <= 8
    wanted = {"compiler", "interpreter", "database", "server", "documents", "solver", "text", "threads"}
    assert {card.area for card in quick} >= wanted
    assert any(card.threads > 1 for card in quick)


def test_every_program_was_measured_and_the_default_set_calls_malloc_often():
    for name, card in load_programs().items():
        assert set(measured(name)) == set(card.sizes)
        if card.quick:
            assert measured(name)["quick"]["mallocs"] > 100_000


def test_the_documented_table_is_the_measured_one():
    table = (programs._folder().parent / "docs" / "programs.md").read_text()
    for name in load_programs():
        for size, facts in measured(name).items():
            memory = f"{facts['peak_rss'] / 2**20:.0f} MiB"
            assert f"| {name} | {size} | {facts['wall']:.2f} s | {memory} | {facts['mallocs']:,} |" in table


@pytest.mark.parametrize(("change", "wanted"), [
    (("title =", "titel ="), "card.toml:1: field 'title' is missing"),
    (('area = "tool"', 'area = "toy"'), "card.toml:3: field 'area' must be one of"),
    (('command = ["sh"', 'command = [7'), "card.toml:5: field 'command' must be a list of strings"),
    (('command = ["sh", "-c", "echo {words}"]', "command = []"), "card.toml:5: field 'command' must name a program"),
    (("{words}", "{wrods}"), "card.toml:5: field 'command' has a placeholder {wrods} that size quick does not know"),
    (("[sizes.quick]", "[sizes.fast]"), "card.toml:10: field 'sizes.fast' is no size; sizes are quick and full"),
    (("words = 3", "words = 3.5"), "card.toml:11: field 'sizes.quick.words' must be a whole number or a string"),
    (("0" * 64, "abc"), "card.toml:12: field 'sizes.quick.digest' must be a sha256"),
    ((f'digest = "{"0" * 64}"', ""), "card.toml:8: field 'answer.output' is 'same', but sizes.quick records no digest"),
    (('output = "same"', 'output = "sane"'), "card.toml:8: field 'answer.output' must be one of same"),
    (("[answer]", "threads = 0\n[answer]"), "card.toml:7: field 'threads' must be at least 1"),
    (("[answer]", 'files = ["a|/b"]\n[answer]'), "card.toml:7: field 'files' must be absolute paths, not 'a'"),
    (("[answer]", "colour = 1\n[answer]"), "card.toml:7: field 'colour' is not known here"),
    (("[answer]", "[server]\nclient = []\nstop = []\n[answer]"), "card.toml:8: field 'server.client' must name"),
    (("[answer]", '[server]\nclient = ["sh"]\nstop = ["sh"]\nclient_answer = "("\n[answer]'),
     "card.toml:10: field 'server.client_answer' is not a regular expression"),
    (("[answer]", '[server]\nclient = ["sh"]\nstop_signal = "HELP"\n[answer]'),
     "card.toml:9: field 'server.stop_signal' must be the name of a signal, such as INT, not 'HELP'"),
    (("[answer]", '[server]\nclient = ["sh"]\nwarm_up = ["{wrods}"]\n[answer]'), "placeholder {wrods} that size quick"),
    (("[answer]", '[server]\nclient = ["sh"]\nready = []\n[answer]'), "card.toml:9: field 'server.ready' must name a program"),
    (("[answer]", '[server]\nclient = ["sh"]\nload_generator = "wrg"\n[answer]'),
     "field 'server.load_generator' must be one of wrk,"),
    (('"A card"', '"A card'), "card.toml:2: is not valid TOML"),
])
def test_a_malformed_card_is_told_file_line_and_field(catalog, change, wanted):
    assert change[0] in CARD
    assert wanted in complaint(catalog, CARD.replace(*change))


def test_placeholders_are_filled_and_other_braces_stay():
    assert fill("{a}{b} {c} {1} {} ${a}", {"a": "x", "b": "{c}"}) == "x{c} {c} {1} {} $x"


def test_a_prepared_program_has_absolute_paths_and_only_what_a_trial_fills_in_is_left(catalog, tmp_path):
    write(catalog, "card", CARD.replace("{words}", "{words} {dir} {port} {programs}"))
    ready = prepare_program("card")
    assert ready.name == "card" and ready.command[0] == shutil.which("sh")
    assert ready.command[2] == f"echo 3 {{dir}} {{port}} {catalog}"
    assert not ready.literal and ready.answer.digest == "0" * 64


def test_all_of_a_server_is_prepared(catalog):
    write(catalog, "card", CARD + """
[server]
client = ["sh", "{programs}/ask", "{words}", "{port}"]
ready = ["sh", "{dir}"]
warm_up = ["sh", "{words}"]
stop_signal = "INT"
client_answer = "^{words}$"
load_generator = "ab"
""")
    server = prepare_program("card").server
    sh = shutil.which("sh")
    assert server.client == (sh, f"{catalog}/ask", "3", "{port}") and server.ready == (sh, "{dir}") and server.warm_up == (sh, "3")
    assert (server.stop, server.stop_signal, server.client_answer, server.generator) == ((), "SIGINT", "^3$", "ab")
    assert list(command_lines(find_card("card"), "quick")) == ["command", "client", "ready", "warm_up"]


def test_a_program_of_the_labs_own_python_says_what_it_lacks(catalog):
    card = CARD.replace('["sh", "-c"', '["{python}", "-c"').replace("area =", 'modules = ["click"]\narea =')
    write(catalog, "card", card)
    ready = prepare_program("card")
    assert ready.command[0] == sys.executable and ready.provenance.startswith("PyPI click ")
    write(catalog, "card", card.replace('"click"', '"no-such-module"'))
    assert load_programs()["card"].reason == "Heapyard's Python environment has no no-such-module"


def test_a_size_is_part_of_the_name():
    assert split_size("gs") == ("gs", "quick") and split_size("gs:full") == ("gs", "full")
    assert prepare_program("sqlite:full") == prepare_program("sqlite", "full")
    assert prepare_program("sqlite:full").name == "sqlite:full" and prepare_program("sqlite").name == "sqlite"


def test_wrong_names_and_sizes_say_what_there_is(catalog):
    write(catalog, "card", CARD)
    with pytest.raises(UsageError, match="no program 'crad'; did you mean card"):
        prepare_program("crad")
    with pytest.raises(UsageError, match="program 'card' has no size 'full'; it has quick"):
        prepare_program("card", "full")


def test_what_is_not_installed_says_so_and_how_to_get_it(catalog):
    lacking = CARD.replace('["sh"', '["no-such-a|no-such-b"')
    write(catalog, "card", lacking.replace("area =", 'packages = ["nothing"]\narea ='))
    card = load_programs()["card"]
    assert (card.status, card.reason) == ("available", "there is no no-such-a or no-such-b in PATH")
    with pytest.raises(UsageError) as caught:
        prepare_program("card")
    assert caught.value.remedy == "Run: heapyard programs install card"


def test_a_helper_that_is_missing_makes_the_program_unavailable(catalog):
    write(catalog, "card", CARD.replace("area =", 'tools = ["no-such-tool"]\narea ='))
    assert load_programs()["card"].status == "unavailable"
    assert "no-such-tool" in load_programs()["card"].reason


def test_a_file_that_is_missing_makes_the_program_unavailable(catalog, tmp_path):
    """A module of another Python, for example: /usr/bin/python3 alone is not enough for a service."""
    pattern = f"{tmp_path}/none|{tmp_path}/lib*/module"
    write(catalog, "card", CARD.replace("area =", f'packages = ["some"]\nfiles = ["{pattern}"]\narea ='))
    assert load_programs()["card"].reason == f"there is no {tmp_path}/none or {tmp_path}/lib*/module"
    (tmp_path / "lib3" / "module").mkdir(parents=True)
    assert load_programs()["card"].status == "installed"


def test_what_the_systems_python_must_have_is_asked_for():
    """The module that a card runs, and what its own script imports."""
    seen = 0
    for card in load_programs().values():
        if card.command[0] != "/usr/bin/python3" or "-m" not in card.command:
            continue
        script = programs._folder() / "scripts" / f"{card.command[-1].partition(':')[0]}.py"
        imported = set(re.findall(r"^(?:from|import) (\w+)", script.read_text(), re.MULTILINE)) - sys.stdlib_module_names
        asked = {entry.rpartition("/")[2] for entry in card.files}
        assert imported and asked >= imported | {card.command[card.command.index("-m") + 1]}
        seen += 1
    assert seen


def test_what_is_built_here_says_how_to_build_it(catalog):
    write(catalog, "card", CARD.replace('"sh"', '"{bin}/card"'))
    assert load_programs()["card"].reason == "it has not been built. Start again with ./heapyard, which builds it."


def test_the_users_own_program_joins_the_catalog(catalog, tmp_path):
    write(catalog, "card", CARD)
    (tmp_path / "config" / "heapyard").mkdir(parents=True)
    own = tmp_path / "config" / "heapyard" / "catalog.toml"
    own.write_text('[program.mine]\ncommand = ["sh", "-c", "true"]\ncwd = "work"\nthreads = 2\nenv = { A = "b" }\n')
    ready = prepare_program("mine")
    assert (ready.cwd, ready.inherit_env, ready.threads, ready.env) == (own.parent / "work", True, 2, {"A": "b"})
    own.write_text('[program.card]\ntitle = "x"\ncommand = ["sh"]\n')
    with pytest.raises(UsageError, match=r"catalog.toml:2: .*the catalog has one of that name"):
        load_programs()


def test_installing_asks_for_the_missing_packages_only(catalog, monkeypatch):
    write(catalog, "card", CARD.replace("area =", 'packages = ["one|two"]\narea ='))
    asked = []
    monkeypatch.setattr(debian, "install", lambda packages, report: asked.append(list(packages)))
    install_programs(["card", "card:quick"], print)
    assert asked == [["one|two"]]


def test_a_program_that_still_lacks_something_after_installing_is_an_error(catalog, monkeypatch):
    write(catalog, "card", CARD.replace('["sh"', '["no-such"').replace("area =", 'packages = ["one"]\narea ='))
    monkeypatch.setattr(debian, "install", lambda packages, report: None)
    with pytest.raises(SetupError, match="still cannot run here: there is no no-such in PATH"):
        install_programs(["card"], print)


def test_the_list_fits_eighty_columns_and_names_every_program():
    listing = CliRunner(env={"COLUMNS": "80"}).invoke(cli.command, [])
    assert listing.exit_code == 0
    for card in load_programs().values():
        assert card.name in listing.output


def test_json_tells_everything():
    rows = json.loads(CliRunner().invoke(cli.command, ["--json"]).output)
    assert [row["name"] for row in rows] == list(load_programs())
    assert all(row["measured"]["quick"]["mallocs"] for row in rows)


def test_show_prints_the_exact_command_line():
    shown = CliRunner().invoke(cli.command, ["show", "sqlite:full"]).output
    words = command_lines(find_card("sqlite"), "full")["command"]
    assert words[0] in shown and words[-1] in shown and "inventory.sql" in shown
    with pytest.raises(UsageError, match="has no size 'huge'"):
        CliRunner().invoke(cli.command, ["show", "sqlite:huge"], catch_exceptions=False)

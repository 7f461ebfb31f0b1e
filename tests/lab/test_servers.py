# SPDX-License-Identifier: Apache-2.0
"""A server in a trial: ready, warm, loaded, left alone, stopped; and each way in which that fails."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from heapyard.catalog.allocators import find_allocators
from heapyard.catalog.program_command import program_from_command
from heapyard.catalog.server_command import Load, lead_of, parse_reading, server_of, signal_named
from heapyard.catalog.server_words import missing_program, misspelt
from heapyard.execute.trial import run_trial
from heapyard.model import places
from heapyard.model.errors import HeapyardError, UsageError
from heapyard.model.experiment import Settings, Treatment, TrialOutcome
from heapyard.model.program import Program

SETTINGS = Settings(timeout=20.0)
GLIBC = find_allocators(["glibc"])[0]
PLAIN = replace(GLIBC, name="plain", library=places.native("libplain.so"), sha256="")

# Answers words in capitals. `burn` uses 0.2 s of processor time, `grow` keeps 8 MiB, `die` ends it at once, `bye` in peace.
SERVE = """
import os, socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
kept = []
print("open for business", flush=True)
while True:
    peer, _ = server.accept()
    word = peer.recv(100).decode()
    if word == "burn":
        end = time.process_time() + 0.2
        while time.process_time() < end: pass
    if word == "grow": kept.append(bytearray(os.urandom(1) * (8 << 20)))
    if word == "die": os.kill(os.getpid(), 11)
    peer.sendall(word.upper().encode())
    peer.close()
    if word == "bye": sys.exit(int(sys.argv[2]))
"""
ASK = """
import socket, sys
for word in sys.argv[2:]:
    peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    peer.sendall(word.encode())
    print(peer.recv(100).decode())
"""
# What ab prints, as far as it is read.
AB = """Complete requests: 4
Failed requests: 1
Time taken for tests: 0.5 seconds
Time per request: 125.0 [ms] (mean)
 99% 200
"""


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    (tmp_path / "serve.py").write_text(SERVE)
    (tmp_path / "ask.py").write_text(ASK)
    ab = tmp_path / "ab"
    ab.write_text(f"#!/bin/sh\ncat <<END\n{AB}END\n")
    ab.chmod(0o755)
    return tmp_path


def server(scripts: Path, load: str, *, code: str = "0", command: tuple[str, ...] = (), **fields: object) -> Program:
    """`load`: words for it, or a whole shell line if it has a blank and a slash."""
    line = load if "/" in load else f"/usr/bin/python3 {scripts}/ask.py {{port}} {load}"
    words = command or ("/usr/bin/python3", str(scripts / "serve.py"), "{port}", code)
    given = {"settle": 0.05, "ready_within": 10.0, **fields}
    return program_from_command(words, load=Load((line,), **given), cwd=scripts, name="server")  # type: ignore[arg-type]


def trial(scripts: Path, what: Program, settings: Settings = SETTINGS, allocator: object = GLIBC) -> TrialOutcome:
    folder = scripts / f"trial{len(list(scripts.iterdir()))}"
    folder.mkdir()
    return run_trial(what, Treatment("it", allocator), settings, pad=17, folder=folder)  # type: ignore[arg-type]


def test_a_server_is_measured_and_its_load_is_not_injected(scripts: Path) -> None:
    outcome = trial(scripts, server(scripts, "hello"), allocator=PLAIN)
    assert outcome.status == "ok", outcome.reason
    assert outcome.provider.endswith("libplain.so") and outcome.metrics["processes"] == 1
    assert 0 < outcome.metrics["wall"]


def test_responses_are_of_the_load_alone(scripts: Path) -> None:
    """The warm-up burns and grows; the load only burns."""
    ask = f"/usr/bin/python3 {scripts}/ask.py {{port}}"
    outcome = trial(scripts, server(scripts, f"{ask} burn", warm_up=f"{ask} burn burn grow grow", settle=0.3))
    assert outcome.status == "ok", outcome.reason
    m = outcome.metrics
    assert 0.15 < m["load_cpu"] < 0.4 < m["cpu"]
    assert 0 < m["generator_cpu"] < 0.15, "the client only asks"
    assert m["steady_rss"] > 16 << 20 and m["left_rss"] > 16 << 20
    assert {d.name for d in outcome.defined} >= {"load_cpu", "steady_rss", "left_rss"}


def test_what_a_load_generator_tells_is_read_and_divided(scripts: Path) -> None:
    m = trial(scripts, server(scripts, f"PATH={scripts}:$PATH; /usr/bin/python3 {scripts}/ask.py {{port}} burn; ab")).metrics
    assert m["requests"] == 4 and m["request_rate"] == 8 and m["time_per_request"] == pytest.approx(0.125)
    assert m["latency_p99"] == pytest.approx(0.2) and m["failed_requests"] == 1
    assert m["cpu_per_request"] == pytest.approx(m["load_cpu"] / 4)
    assert m["faults_per_request"] == m["load_faults"] / 4


def test_server_load_and_helpers_run_in_the_users_folder(scripts: Path) -> None:
    ask = "test -e ask.py && /usr/bin/python3 ./ask.py {port}"
    outcome = trial(scripts, server(scripts, f"{ask} hello", ready=f"{ask} hello", warm_up=f"{ask} hello", stop=f"{ask} bye"))
    assert outcome.status == "ok", outcome.reason


def test_loads_at_the_same_time_are_added_up(scripts: Path) -> None:
    line = f"PATH={scripts}:$PATH; ab {{port}}"
    words = ("/usr/bin/python3", str(scripts / "serve.py"), "{port}", "0")
    what = program_from_command(words, load=Load((line, line), settle=0.0), cwd=scripts)
    m = trial(scripts, what).metrics
    assert m["requests"] == 8 and m["request_rate"] == 16 and m["latency_p99"] == pytest.approx(0.2)


def test_a_metric_of_the_users_own(scripts: Path) -> None:
    what = server(scripts, "/bin/echo queue 7, queue 9 in {port}", metrics=("queue=queue ([0-9]+):higher",))
    outcome = trial(scripts, what)
    assert outcome.metrics["queue"] == 9
    assert next(d for d in outcome.defined if d.name == "queue").direction == "higher"


@pytest.mark.parametrize(
    "fields",
    [
        {"ready_line": "^open for"},
        {"ready": "/usr/bin/python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"},
        {},
    ],
    ids=["line", "command", "port"],
)
def test_each_sign_of_readiness(scripts: Path, fields: dict[str, str]) -> None:
    assert trial(scripts, server(scripts, "hello", **fields)).status == "ok"


@pytest.mark.parametrize("stop", ["TERM", "SIGINT", "9", "/usr/bin/python3 {scripts}/ask.py {port} bye"])
def test_each_way_to_stop(scripts: Path, stop: str) -> None:
    outcome = trial(scripts, server(scripts, "hello", stop=stop.replace("{scripts}", str(scripts))))
    assert outcome.status == "ok", outcome.reason


def test_a_wrapper_and_its_server_are_measured_whole_and_end(scripts: Path) -> None:
    serve = f"/usr/bin/python3 {scripts}/serve.py {{port}} 0"
    outcome = trial(scripts, server(scripts, "burn", command=("/bin/sh", "-c", f"{serve} & echo $! > {scripts}/pid; wait")))
    assert outcome.status == "ok", outcome.reason
    assert outcome.metrics["load_cpu"] > 0.15 and outcome.metrics["processes"] >= 2
    with pytest.raises(ProcessLookupError):
        os.kill(int((scripts / "pid").read_text()), 0)


def test_each_trial_has_a_copy_of_the_state(scripts: Path) -> None:
    state = scripts / "state"
    state.mkdir(mode=0o700)
    (state / "seed").write_text("1")
    first = "test -e {dir}/seed && ! test -e {dir}/new && touch {dir}/new"
    serve = f"{first} && exec /usr/bin/python3 {scripts}/serve.py {{port}} 0"
    what = server(scripts, "hello", command=("/bin/sh", "-c", serve), state=state)
    assert [trial(scripts, what).status for _ in range(2)] == ["ok", "ok"]
    assert sorted(p.name for p in state.iterdir()) == ["seed"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a server of another user")
def test_a_server_of_another_user_has_its_folder_and_is_proven(scripts: Path) -> None:
    nobody = ("/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    own = find_allocators(["heapyard"])[0]
    if subprocess.run([*nobody, "/usr/bin/test", "-r", str(own.library)], check=False).returncode:
        pytest.skip("other users may not read this checkout")
    state = scripts / "state"
    state.mkdir(mode=0o700)
    (state / "serve.py").write_text(SERVE)
    for path in (state, state / "serve.py"):
        os.chown(path, 65534, 65534)
    what = server(scripts, "hello", command=(*nobody, "/usr/bin/python3", "{dir}/serve.py", "{port}", "0"), state=state)
    with tempfile.TemporaryDirectory() as folder:  # the fixture's lies in one of root's
        outcome = run_trial(what, Treatment("it", own), SETTINGS, pad=17, folder=Path(folder))
    assert outcome.status == "ok", outcome.reason
    assert outcome.provider == os.path.realpath(str(own.library))


# ----------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("load", "fields", "words"),
    [
        ("hello", {"command": ("/bin/sh", "-c", "exec sleep 30 # {port}"), "ready_within": 0.3},
         "accepted no connection on port "),
        ("hello", {"command": ("/bin/sh", "-c", "sleep 0.1 & exit 0 # {port}")},
         "ended before it was ready, with exit code 0; a server must stay in the foreground"),
        ("hello", {"ready_line": "never", "ready_within": 0.3}, "wrote no line that matches /never/ within 0.3 s"),
        ("hello", {"ready": "/bin/false", "ready_within": 0.3}, "was not ready, as '/bin/sh -c /bin/false' tells, within 0.3 s"),
        ("hello", {"command": ("/bin/sh", "-c", "printf 'on\\nport is haunted\\n\\nAborting' >&2; exit 3 # {port}")},
         "ended before it was ready, with exit code 3; it said: on / port is haunted / Aborting"),
        ("die hello", {}, "ended while it was under load, killed by signal 11 (SIGSEGV)"),
        ("/bin/sh -c 'echo oh no; exit 4' {port}", {}, "the load ended with status 4; it said: oh no"),
        ("/bin/echo quiet {port}", {"metrics": ("p99=p99: ([0-9]+)",)},
         "the load prints nothing that matches /p99: ([0-9]+)/, which --metric p99 reads"),
        ("hello", {"stop": "/bin/sh -c 'exit 1'"}, "the stop command ended with status 1"),
        ("hello", {"stop": "/usr/bin/python3 {scripts}/ask.py {port} bye", "code": "5"}, "ended with exit code 5 instead of 0"),
    ],
)  # fmt: skip
def test_each_failure_is_told_in_a_sentence(scripts: Path, load: str, fields: dict[str, object], words: str) -> None:
    fields = {name: v.replace("{scripts}", str(scripts)) if isinstance(v, str) else v for name, v in fields.items()}
    outcome = trial(scripts, server(scripts, load, **fields))  # type: ignore[arg-type]
    assert outcome.status == "failed" and words in outcome.reason


def test_a_server_that_ignores_its_stop_is_ended(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heapyard.execute.server.life.STOP_SECONDS", 0.3)
    serve = f"trap '' TERM; echo $$ > {scripts}/pid; exec /usr/bin/python3 {scripts}/serve.py {{port}} 0"
    outcome = trial(scripts, server(scripts, "hello", command=("/bin/sh", "-c", serve)))
    assert outcome.status == "failed" and "the server still ran 0.3 s after SIGTERM" in outcome.reason
    with pytest.raises(ProcessLookupError):
        os.kill(int((scripts / "pid").read_text()), 0)


@pytest.mark.parametrize(
    ("answered", "errors", "complaint"), [(1200, 1200, "errors: ab counts 1,200 requests and 1,200 that failed"), (400, 399, "")]
)
def test_a_load_that_had_errors_alone_tells_nothing(scripts: Path, answered: int, errors: int, complaint: str) -> None:
    said = AB.replace("Complete requests: 4", f"Complete requests: {answered}")
    said = said.replace("Failed requests: 1", f"Failed requests: {errors}")
    (scripts / "ab").write_text(f"#!/bin/sh\ncat <<END\n{said}END\n")
    outcome = trial(scripts, server(scripts, f"PATH={scripts}:$PATH; ab {{port}} /"))
    assert complaint in outcome.reason and (outcome.status == "ok") == (not complaint)


def test_an_output_that_is_not_the_generators_fails(scripts: Path) -> None:
    (scripts / "ab").write_text("#!/bin/sh\necho hello\n")
    outcome = trial(scripts, server(scripts, f"PATH={scripts}:$PATH; ab {{port}} /"))
    assert "has an output that ab does not write: there is no sign of the line" in outcome.reason


def test_a_port_in_use_is_told_before_anything_starts(scripts: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        what = server(scripts, "hello", port=taken.getsockname()[1])
        with pytest.raises(HeapyardError, match=r"port \d+ cannot be had: Address already in use"):
            trial(scripts, what)


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (Load(("/bin/true",)), "nothing tells when the server is ready"),
        (Load(("",), port=1), "--load: is empty"),
        (Load(("/bin/true",), port=1, stop="TREM"), "--stop: there is no signal 'TREM'"),
        (Load(("no_such_program x",), port=1), "there is no program 'no_such_program'"),
        (Load(("/bin/true",), port=1, ready_line="("), "--ready-line: /(/ is not a regular expression"),
        (Load(("/bin/true",), port=1, state=Path("/no/such")), "--state: there is no folder '/no/such'"),
        (Load(("/bin/true",), port=1, metrics=("x=1",)), "must have one group"),
        (Load(("/bin/true",), port=1, metrics=("wall=(1)",)), "heapyard itself has a response of this name"),
        (Load(("/bin/true",), port=1, metrics=("Big=(1)",)), "write NAME=REGEX"),
        (Load(("/bin/true", "/bin/sh -c ab"), port=1), "the loads are of several kinds"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(load: Load, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        program_from_command([sys.executable], load=load)


def test_names_of_signals() -> None:
    assert signal_named("TERM") == signal_named("SIGTERM") == signal_named(str(int(signal.SIGTERM))) == "SIGTERM"
    assert signal_named("redis-cli shutdown") == signal_named("99") == ""


def test_readings() -> None:
    assert parse_reading("p99_ms=p99: (.*) ms:higher").direction == "higher"
    assert parse_reading("p99_ms=p99: (.*)").pattern == "p99: (.*)"


@pytest.mark.parametrize(
    ("line", "metrics", "lead"),
    [
        ("/usr/bin/ab x", (), "time_per_request"),
        ("vegeta attack", (), "latency_p99"),
        ("pgbench -R 100", (), "latency_mean"),  # it prints no percentile
        ("sysbench --rate=5 run", (), "latency_p95"),
        ("sysbench --rate=5 --percentile=99 run", (), "latency_p99"),
        ("wrk2 -R10 --latency x", (), "latency_p99"),
        ("wrk2 -R10 x", (), "latency_mean"),
        ("/bin/true", (), "wall"),
        ("/bin/true", ("x=(1)",), "x"),
    ],
)
def test_what_leads(line: str, metrics: tuple[str, ...], lead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda word: word)
    load = Load((line,), port=1, metrics=metrics)
    server = program_from_command([sys.executable], load=load).server
    assert server is not None and lead_of(load, server) == lead
    assert lead_of(replace(load, lead="left_rss"), server) == "left_rss"
    with pytest.raises(UsageError, match=r"--lead left_rs: there is no such response; did you mean left_rss\?"):
        lead_of(replace(load, lead="left_rs"), server)
    if server.generator:
        assert lead_of(replace(load, lead="latency_p50"), server) == "latency_p50"
    elif not metrics:
        with pytest.raises(UsageError, match="no load generator that is known here"):
            lead_of(replace(load, lead="latency_p50"), server)


def test_a_lead_that_the_load_does_not_tell_fails(scripts: Path) -> None:
    what = server(scripts, f"PATH={scripts}:$PATH; ab {{port}} /")
    outcome = trial(scripts, what, replace(SETTINGS, time_metric="latency_p50"))
    assert outcome.status == "failed" and "the load tells no latency_p50 above zero" in outcome.reason
    assert outcome.reason.endswith("of which the verdict is to speak, but latency_mean and latency_p99")


@pytest.mark.parametrize(
    ("load", "command", "words"),
    [
        (Load(("ab http://x:{prot}/",)), ("./serve", "{port}"), "--load: '{prot}' is replaced by nothing; did you mean {port}?"),
        (Load(("ab http://x:{port}/",)), ("./serve", "{PORT}"), "the server's command: '{PORT}' is replaced by nothing; did you"),
        (Load(("ab http://x:${port}/",)), ("./serve", "{port}"), "'${port}' is a variable of the shell; write {port} without"),
        (Load(("ab {port}",)), ("./serve", "{ports}"), "did you mean {port}?"),
        (Load(("ab {port}",), stop="kill {dri}/pid"), ("./serve", "{port}"), "--stop: '{dri}' is replaced by nothing; did you"),
        (Load(("ab {port}",)), ("./serve", "8080"), "--load: asks {port}, but nothing tells the server which port that is"),
    ],
)
def test_a_misspelt_placeholder_is_seen(
    load: Load, command: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda word: word)
    with pytest.raises(UsageError, match=re.escape(words)):
        server_of(load, command)


@pytest.mark.parametrize("word", ["{port}", "{dir}/x", "awk '{print $1}'", "${PORT}", "${HOME}", '{"a": 1}', "{parts}"])
def test_other_braces_are_the_users(word: str) -> None:
    assert not misspelt([word])


def test_a_port_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda word: word)
    assert server_of(Load(("ab {port}",)), ["./serve"], {"PORT": "{port}"}).generator == "ab"


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("echo GET http://127.0.0.1:{port}/ | no_vegeta attack | no_other report", "no_vegeta"),
        ("true && A=1 no_such 3", "no_such"),
        ("A=1 no_such", "no_such"),
        ("echo no_such | cat", ""),
        ("for i in 1 2; do no_such; done", ""),
        ("PATH=x:$PATH; no_such", ""),
        ("cd x && ./no_such", ""),
        ("echo 'a | no_such' 2>&1", ""),
        ("echo $(no_such)", ""),
        ("echo 'unclosed | no_such", ""),
    ],
)
def test_programs_of_a_line_that_are_not_there(line: str, missing: str) -> None:
    assert missing_program(line) == missing

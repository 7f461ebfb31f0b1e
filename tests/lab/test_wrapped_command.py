# SPDX-License-Identifier: Apache-2.0
"""A command is called by the program that it runs in the end, not by what starts it."""

from __future__ import annotations

import shlex

import pytest
from heapyard.catalog.program_command import program_from_command
from heapyard.catalog.wrapped_command import program_name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("/usr/sbin/nginx -g x", "nginx"),
        ("/usr/bin/env -i -u HOME A=1 taskset -c 0,1 nice -n 5 ./server --port 1", "server"),
        ("nice -5 server", "server"),
        ("nice -n5 server", "server"),
        ("chrt -f 10 server", "server"),
        ("chrt --sched-runtime 500 -d 0 server", "server"),
        ("stdbuf -oL -e L server", "server"),
        ("sudo -u postgres -n A=b /usr/lib/postgresql/15/bin/postgres -D {dir}", "postgres"),
        ("numactl -N 0 --membind=0 --localalloc mariadbd", "mariadbd"),
        ("setpriv --reuid postgres --regid postgres --clear-groups postgres -D {dir}", "postgres"),
        ("runuser -u postgres -- postgres -p {port}", "postgres"),
        ("su postgres -c 'exec postgres -p {port}'", "postgres"),
        ("timeout -k 5 10 server", "server"),
        ("flock {dir}/lock -c './server {port}'", "server"),
        # What runs in place of the shell, wherever it stands; text that is printed or redirected is no command.
        ('sh -c \'echo "daemon off; exec other {}" >{dir}/conf; exec nginx -c {dir}/conf\'', "nginx"),
        ("bash -ec 'exec 3>log\nexec server'", "server"),
        ("sh -c 'cat >conf <<E\nworker foo\nE\nexec nginx'", "nginx"),
        ("sh -c 'exec -a other server'", "server"),
        ("sh -c 'exec \"$@\"' sh env A=1 server", "server"),
        # Without exec the last one that is no helper.
        ("sh -c 'cd x && A=1 ./server --port {port} 2>&1 | tee log'", "server"),
        ("sh -c 'gunzip -c in | jq .'", "jq"),
        ("sh -c 'server & wait'", "server"),
        ("sh -c 'while :; do server; done'", "server"),
        ("sh -c 'sleep 1'", "sleep"),
        ("sh start.sh {port}", "start.sh"),
        ("python3 service.py", "python3"),
        # Where nothing is found, the first word: the program is then known to the shell alone, or there is none.
        ("sh -c 'exec \"$SERVER\"'", "sh"),
        ("sh -c \"unclosed '\"", "sh"),
        ("sh", "sh"),
        ("/bin/sh -c", "sh"),
        ("env -i", "env"),
        ("sh -c ''", "sh"),
    ],
)
def test_named_after_what_runs_in_the_end(line, name):
    words = shlex.split(line) if "unclosed" not in line else ["sh", "-c", "unclosed '"]
    assert program_name(words) == name


def test_a_program_of_ones_own_has_that_name():
    assert program_from_command(["env", "A=1", "nice", "true"]).name == "true"
    assert program_from_command(["sh", "-c", "exec true"]).name == "true"

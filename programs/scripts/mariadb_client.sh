# SPDX-License-Identifier: Apache-2.0
# mariadb_client.sh prepare|run SOCKET TRANSACTIONS
# prepare fills a table; run carries out the transactions, those that only read and
# as many that also write, then says what became of them and of the table.
set -eu
ask() { mariadb --no-defaults --user=root --socket="$socket" --skip-column-names --batch --execute="$1"; }
socket=$2
options="--mysql-socket=$2 --mysql-user=root --tables=1 --table-size=5000 --rand-seed=7"
if [ "$1" = prepare ]; then
  ask "CREATE DATABASE sbtest"
  # shellcheck disable=SC2086 # options are words
  exec sysbench oltp_read_write $options prepare
fi
# run TEST THREADS: how many transactions there were, and how many errors.
run() {
  # shellcheck disable=SC2086
  sysbench "$1" $options --threads="$2" --events="$events" --time=0 run |
    sed -n 's/^ *transactions: *\([0-9]*\).*/\1/p; s/^ *ignored errors: *\([0-9]*\).*/errors \1/p' | paste -s -d ' '
}
events=$3
reads=$(run oltp_read_only 4)
writes=$(run oltp_read_write 1)
printf 'reads %s writes %s rows %s\n' "$reads" "$writes" "$(ask 'SELECT count(*) FROM sbtest.sbtest1')"

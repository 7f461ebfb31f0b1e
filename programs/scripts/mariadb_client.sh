# SPDX-License-Identifier: Apache-2.0
# mariadb_client.sh prepare|run SOCKET TRANSACTIONS
# prepare fills a table; run carries out the transactions, then says what became of them and of the table.
set -eu
ask() { mariadb --no-defaults --user=root --socket="$socket" --skip-column-names --batch --execute="$1"; }
socket=$2
bench="sysbench oltp_read_write --mysql-socket=$2 --mysql-user=root --tables=1 --table-size=5000 --rand-seed=7"
if [ "$1" = prepare ]; then
  ask "CREATE DATABASE sbtest"
  exec $bench prepare
fi
told=$($bench --threads=4 --events="$3" --time=0 run)
printf '%s\n' "$told"
count() { printf '%s\n' "$told" | sed -n "s/^ *$1: *\([0-9]*\).*/\1/p"; }
printf 'transactions %s errors %s rows %s\n' \
  "$(count transactions)" "$(count 'ignored errors')" "$(ask 'SELECT count(*) FROM sbtest.sbtest1')"

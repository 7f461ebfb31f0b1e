# SPDX-License-Identifier: Apache-2.0
# postgresql_client.sh PORT TRANSACTIONS
# So many transactions on each of four connections, then whether the books balance.
set -eu
pgbench --no-vacuum --client 4 --transactions "$2" --random-seed 7 \
  --host 127.0.0.1 --port "$1" --username postgres postgres
psql --host 127.0.0.1 --port "$1" --username postgres --no-align --tuples-only --command "
  SELECT 'transactions ' || count(*) || ' balanced ' || CASE WHEN sum(delta) = (SELECT sum(abalance) FROM pgbench_accounts)
    AND sum(delta) = (SELECT sum(tbalance) FROM pgbench_tellers)
    AND sum(delta) = (SELECT sum(bbalance) FROM pgbench_branches) THEN 't' ELSE 'f' END
  FROM pgbench_history" postgres

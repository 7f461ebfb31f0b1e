# SPDX-License-Identifier: Apache-2.0
# postgresql_server.sh FOLDER PORT
# A new cluster below FOLDER, served on PORT of the loopback. PostgreSQL refuses to run as root.
set -eu
# A folder of clients alone has no server.
for found in /usr/lib/postgresql/*/bin/postgres; do bin=${found%/postgres}; done
if [ "$(id -u)" -eq 0 ]; then
  chown postgres "$1"
  as="setpriv --reuid=postgres --regid=postgres --clear-groups"
else
  as=
fi
cd "$1"
$as "$bin/initdb" --pgdata cluster --username postgres --auth trust --locale C --encoding UTF8 --no-sync >initdb.log
# Without vacuums in between, and without waiting for a disk, the work is the same each time.
exec $as "$bin/postgres" -D "$1/cluster" -p "$2" -k "$1" -c listen_addresses=127.0.0.1 -c shared_buffers=32MB \
  -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c autovacuum=off -c jit=off -c max_wal_size=1GB

# SPDX-License-Identifier: Apache-2.0
# redis_client.sh PORT REQUESTS SCRIPT
# Sends the requests, pipelined over a few connections, then says what the database holds.
set -eu
redis-benchmark -h 127.0.0.1 -p "$1" -n "$2" -c 8 -P 16 -q eval "$(cat "$3")" 0 >/dev/null
ask() { redis-cli -h 127.0.0.1 -p "$port" "$@"; }
port=$1
printf 'requests %s keys %s\n' "$(ask get requests)" "$(ask dbsize)"

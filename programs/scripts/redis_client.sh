# redis_client.sh PORT REQUESTS SCRIPT: send the requests, pipelined over a few connections, then say what the database holds.
set -eu
redis-benchmark -h 127.0.0.1 -p "$1" -n "$2" -c 8 -P 16 -q eval "$(cat "$3")" 0 >/dev/null
printf 'requests %s keys %s\n' "$(redis-cli -h 127.0.0.1 -p "$1" get requests)" "$(redis-cli -h 127.0.0.1 -p "$1" dbsize)"

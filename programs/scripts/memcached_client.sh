# SPDX-License-Identifier: Apache-2.0
# memcached_client.sh PORT KEYS
# So many keys set by each of four threads, then got by each of them; then what the server counted.
set -eu
for test in set get; do
  memcslap --servers="127.0.0.1:$1" --concurrency=4 --execute-number="$2" --initial-load="$2" --test=$test >/dev/null
done
told=$(memcstat --servers="127.0.0.1:$1")
count() { printf '%s\n' "$told" | sed -n "s/^[[:space:]]*$1: //p"; }
printf 'cmd_set %s get_misses %s evictions %s curr_items %s\n' \
  "$(count cmd_set)" "$(count get_misses)" "$(count evictions)" "$(count curr_items)"

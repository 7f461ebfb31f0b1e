# SPDX-License-Identifier: Apache-2.0
# http_client.sh URL ANSWERS CONNECTIONS
# wrk asks for gzipped answers until it has so many; then the digest of what one of them holds.
set -eu
wrk -t1 -c"$3" -d10m --timeout 30s --latency -s "${0%/*}/wrk_count.lua" "$1" -- "$2" Accept-Encoding gzip
printf 'content %s\n' "$(curl --silent --fail --compressed "$1" | sha256sum | cut -d ' ' -f 1)"

# SPDX-License-Identifier: Apache-2.0
# http_client.sh URL ANSWERS CONNECTIONS
# h2load asks for so many gzipped answers over HTTP 1.1, then the digest of what one of them holds.
# Not wrk, which stops after a time, not after so much work.
set -eu
h2load --h1 --threads=1 --clients="$3" --requests="$2" --header='accept-encoding: gzip' "$1"
printf 'content %s\n' "$(curl --silent --fail --compressed "$1" | sha256sum | cut -d ' ' -f 1)"

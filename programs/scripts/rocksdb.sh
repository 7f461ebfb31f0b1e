# SPDX-License-Identifier: Apache-2.0
# rocksdb.sh FOLDER KEYS
# Fills a database below FOLDER and reads it; prints what was found, without the times.
set -eu
db_bench --db="$1/db" --num="$2" --seed=7 --threads=1 --value_size=200 --compression_type=none --disable_wal=1 \
  --write_buffer_size=4194304 --cache_size=2097152 --benchmarks=fillrandom,overwrite,compact,readrandom,readseq \
  >"$1/told" 2>"$1/errors" || { cat "$1/errors" >&2; exit 1; }
sed -n 's/^readrandom .*(\([0-9]* of [0-9]*\) found).*/readrandom \1/p; s/.*\(readseq\) .* seconds \([0-9]*\) operations.*/\1 \2/p' \
  "$1/told"

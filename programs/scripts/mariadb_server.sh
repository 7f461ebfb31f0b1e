# SPDX-License-Identifier: Apache-2.0
# mariadb_server.sh FOLDER PORT
# A new database below FOLDER, served on PORT of the loopback and on FOLDER/socket.
set -eu
PATH=$PATH:/usr/sbin
options="--no-defaults --datadir=$1/data --innodb-log-file-size=8M --innodb-flush-method=nosync --innodb-doublewrite=0
  --innodb-flush-log-at-trx-commit=0 --innodb-use-native-aio=0"
if [ "$(id -u)" -eq 0 ]; then options="$options --user=root"; fi
mkdir "$1/data"
# shellcheck disable=SC2086 # options are words
mariadb-install-db $options --auth-root-authentication-method=normal --skip-test-db >"$1/install.log"
# shellcheck disable=SC2086
exec mariadbd $options --socket="$1/socket" --port="$2" --bind-address=127.0.0.1 --skip-name-resolve \
  --innodb-buffer-pool-size=64M --innodb-fast-shutdown=2 --skip-log-bin

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154 # variables set by the file that sources this one
# The steps of set-up and when each is due. Sourced by ../heapyard; $HEAPYARD_ROOT, $state and $python are set there.
#
# A step is done when its stamp holds its key; the stamp is removed before the step starts and written after it ended,
# so whatever is interrupted is simply done again.

setup=$HEAPYARD_ROOT/setup
stamps=$state/stamps
log=$state/setup.log
build=$state/build/release

# shellcheck source=setup/progress.sh
. "$setup/progress.sh"
# shellcheck source=setup/system.sh
. "$setup/system.sh"
# shellcheck source=setup/python.sh
. "$setup/python.sh"
# shellcheck source=setup/native.sh
. "$setup/native.sh"
# shellcheck source=setup/browser.sh
. "$setup/browser.sh"
# shellcheck source=setup/tests.sh
. "$setup/tests.sh"

# set_up run|test: everything the command line needs; for `test` also what the tests need.
set_up() {
  if ! { mkdir -p -- "$stamps" && : >>"$state/lock" && : >>"$stamps/ready"; } 2>/dev/null; then
    give_up "cannot write to $state; make it writable or set HEAPYARD_STATE to a folder that is"
  fi
  take_lock
  exec 8>&2 # for interrupted()
  trap 'interrupted 130' INT
  trap 'interrupted 143' TERM
  trap 'interrupted 129' HUP
  trap 'stop_clock; stop_test_packages' EXIT
  printf 'Set-up of Heapyard in %s, %s\n' "$HEAPYARD_ROOT" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >"$log"

  set_up_system "$1"
  set_up_python
  if [ "$1" = test ]; then begin_test_packages; fi
  set_up_native "$1"
  end_test_packages
  set_up_browser "$1"

  ready_key >"$stamps/ready"
  trap - INT TERM HUP EXIT
  exec 8>&-
  drop_lock
}

# Two starts at once must not build into each other. The lock is descriptor 9, which compilers and pip inherit: should
# this shell be killed, the next start still waits for what it left running.
take_lock() {
  command -v flock >/dev/null 2>&1 || return 0
  exec 9>"$state/lock"
  flock -n 9 || {
    say "another start of Heapyard is setting up; waiting for it"
    flock 9
  }
}

drop_lock() {
  exec 9>&-
}

# done_before NAME KEY: has the step ended under this very key?
done_before() {
  [ -r "$stamps/$1" ] && [ "$(cat -- "$stamps/$1")" = "$2" ]
}

# hash_of PATH...: one hash over the contents and names of all files below, relative to the checkout.
hash_of() {
  (cd -- "$HEAPYARD_ROOT" && find "$@" -type f ! -name '*.pyc' -exec sha256sum {} + 2>/dev/null | LC_ALL=C sort) |
    sha256sum | cut -d ' ' -f 1
}

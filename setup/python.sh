# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154 # variables set by the file that sources this one
# Step 2: the Python environment, exactly as the lock files say (setup/relock makes them).
#
# The tests' packages go into the same environment, only once `./heapyard test` asks for them.

installing=

set_up_python() {
  key="$(hash_of setup/requirements.txt) $(readlink -f -- "$python" || :)"
  if ! done_before python "$key" || ! [ -x "$python" ]; then
    rm -f -- "$stamps/python" "$stamps/python-test"
    find_python
    step "Python environment" "put right what it says, then start again" make_environment
    step "Python packages" "put right what pip says, then start again" install_locked requirements.txt
    printf '%s %s\n' "$(hash_of setup/requirements.txt)" "$(readlink -f -- "$python")" >"$stamps/python"
  fi
  make_importable
}

# The tests' packages come while compilers are at work: pip mostly waits. Sets $installing, their process.
begin_test_packages() {
  test_packages_key="$(hash_of setup/requirements-test.txt) $(cat -- "$stamps/python")"
  if done_before python-test "$test_packages_key"; then return; fi
  rm -f -- "$stamps/python-test"
  install_locked requirements-test.txt exec >"$log.packages" 2>&1 </dev/null 8>&- &
  installing=$!
}

end_test_packages() {
  if [ -z "$installing" ]; then return; fi
  step "Python packages of the tests" "put right what pip says, then start again" await_test_packages
  printf '%s\n' "$test_packages_key" >"$stamps/python-test"
}

await_test_packages() {
  ended=0
  wait "$installing" || ended=$?
  installing=
  cat -- "$log.packages"
  return "$ended"
}

# Whatever ends set-up, pip does not go on by itself.
stop_test_packages() {
  if [ -n "$installing" ]; then kill "$installing" 2>/dev/null || :; fi
}

# Sets $base to the first Python that is new enough and whole: distributions ship it without venv and ensurepip.
find_python() {
  for base in python3 python3.13 python3.12 python3.11 python3.14; do
    if "$base" -I -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then return; fi
  done
  give_up "no Python of version 3.11 or later with venv and ensurepip was found; install one (Debian: python3 and python3-venv) and start again"
}

make_environment() {
  "$base" -I -m venv --clear -- "$state/venv"
}

# install_locked FILE [exec]: with `exec` in place of the shell that calls it.
install_locked() {
  ${2:-} "$python" -I -m pip --disable-pip-version-check --no-input install --progress-bar off --no-warn-script-location \
    --only-binary :all: --require-hashes -r "$setup/$1"
}

# Lets the environment import the lab from this checkout, with no variable that programs under test would inherit.
make_importable() {
  for packages in "$state"/venv/lib/python3.*/site-packages; do
    printf '%s\n' "$HEAPYARD_ROOT/lab" >"$packages/heapyard.pth"
  done
}

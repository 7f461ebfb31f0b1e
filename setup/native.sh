# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154 # variables set by the file that sources this one
# Step 3: the native parts, built by the CMake preset `release`; `test` builds the native tests into the same folder.

set_up_native() {
  sources="CMakeLists.txt CMakePresets.json packaging base heap examples mutators tracer lab/native programs/src"
  stamp=native
  tests=OFF
  if [ "$1" = test ]; then
    sources="$sources tests/native"
    stamp=native-test
    tests=ON
  fi
  # shellcheck disable=SC2086 # a list of paths without blanks
  key="$(hash_of $sources) $HEAPYARD_ROOT"
  if done_before "$stamp" "$key" && [ -e "$build/build.ninja" ]; then return; fi
  rm -f -- "$stamps/native" "$stamps/native-test"
  step "native parts" "put right what the compiler says, then start again" build_native
  printf '%s\n' "$key" >"$stamps/$stamp"
}

build_native() {
  # A cache from a folder since moved, or half written, is made anew; what was compiled is kept.
  configure || configure --fresh || return 1
  cmake --build "$build"
}

configure() {
  cmake -S "$HEAPYARD_ROOT" --preset release -B "$build" -DHEAPYARD_TESTS="$tests" "$@"
}

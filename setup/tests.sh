# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154 # variables set by the file that sources this one
# `./heapyard test`: the tests asked for, one closing line, exit 1 if any failed.

# shellcheck source=setup/test-areas.sh
. "$setup/test-areas.sh"

tests_usage() {
  cat <<END
Usage: ./heapyard test [--quick] [AREA]... [PYTEST-ARGUMENT]...

Sets up what the tests need, builds, and runs every test: native, Python, end to end.

  --quick         the house's rules, the lab's unit tests and the fastest native tests: under two minutes
  AREA            only the tests of: $areas_known
  PYTEST-ARGUMENT paths and options of pytest, such as tests/lab/test_store.py or -k journal

Paths name the Python tests; the native ones run as well, unless an area or --quick says which.

Examples:
  ./heapyard test --quick
  ./heapyard test heap
  ./heapyard test --quick lab tracer
  ./heapyard test --quick tests/lab/test_store.py
END
}

# choose_tests ARGUMENT...: sets $quick, $areas, and $taken, the number of arguments that are not pytest's.
choose_tests() {
  quick=
  areas=
  taken=0
  while [ $# -gt 0 ]; do
    case $1 in
      --quick) quick=yes ;;
      -h | --help)
        tests_usage
        exit 0
        ;;
      -* | */* | *::*) return ;;
      *)
        case " $areas_known " in
          *" $1 "*) areas="$areas $1" ;;
          *)
            if [ -e "$HEAPYARD_ROOT/$1" ]; then return; fi
            say "there is no area or path '$1'; the areas are $(echo "$areas_known" | sed 's/ /, /g')"
            exit 2
            ;;
        esac
        ;;
    esac
    taken=$((taken + 1))
    shift
  done
}

# run_tests ARGUMENT...: the same arguments, after choose_tests.
run_tests() {
  cd -- "$HEAPYARD_ROOT" || exit
  shift "$taken"
  # Matrices are small here. Threads of OpenBLAS that wait for a processor which others use take up to fifteen times as long.
  export OPENBLAS_NUM_THREADS=1
  native_report=$state/test-native.xml
  rm -f -- "$state"/test-*.xml

  native=0
  rest=0
  run_native || native=$?
  if [ -n "$quick$areas" ]; then
    run_chosen "$@"
  elif [ $# -gt 0 ]; then
    run_python python "$@" || rest=$?
  else
    run_all_python
  fi
  "$python" -I "$setup/closing_line.py" "$native" "$native_report" "$rest" "$state"/test-[!n]*.xml
}

run_native() {
  wanted=
  for area in $areas; do wanted="$wanted${wanted:+|}$(native_of "$area")"; done
  set -- --test-dir "$build" --parallel "$(nproc)" --output-on-failure --no-tests=error --output-junit "$native_report"
  if [ -n "$wanted" ]; then set -- "$@" --tests-regex "$wanted"; fi
  if [ -n "$quick" ]; then set -- "$@" --exclude-regex "$slow_native"; fi
  ctest "$@"
}

# run_python NAME PYTEST-ARGUMENT...: one run of pytest with a report of its own.
run_python() {
  report=$state/test-$1.xml
  shift
  "$python" -I -m pytest --junitxml="$report" "$@"
}

# The areas' tests; what of them is quick; or, where paths are named, those beside the areas' native tests.
run_chosen() {
  if names_a_path "$@"; then
    run_python python "$@" || rest=$?
    return
  fi
  : "${areas:=$areas_known}"
  # shellcheck disable=SC2046,SC2086 # areas and files, one word each
  if [ -n "$quick" ]; then
    run_part lab --numprocesses "$(nproc)" --dist loadfile -m "not slow and not browser and not on_request" \
      $(python_of tests/lab $areas) "$@"
  else
    run_part e2e $(python_of tests/e2e $areas) "$@"
    run_part lab $(python_of tests/lab $areas) "$@"
  fi
}

# run_part NAME PYTEST-ARGUMENT...: one of several runs; that none of its tests is asked for is no failure.
run_part() {
  part=0
  run_python "$@" || part=$?
  if [ "$part" -eq 5 ]; then
    rm -f -- "$state/test-$1.xml"
  elif [ "$part" -ne 0 ]; then
    rest=$part
  fi
}

names_a_path() {
  for word in "$@"; do
    if [ -e "${word%%::*}" ]; then return 0; fi
  done
  return 1
}

# The end-to-end tests that measure have the machine to themselves. Then each processor takes a file at a time of all others,
# and one more is under way for when a test waits. (With two more, programs waited so long for a processor that tests of what
# happens within a second failed now and then.)
# The files that take longest come first. Those of check compare with what they find at the same time, so what compiles
# comes after them.
run_all_python() {
  # shellcheck disable=SC2046 # one word for each file
  run_python alone tests/e2e $(functional_files --ignore=) || rest=$?
  # shellcheck disable=SC2046
  run_python beside --numprocesses "$(($(nproc) + 1))" --maxprocesses 5 --dist loadfile --no-loadscope-reorder \
    $(longest_files) $(functional_files) tests/lab || rest=$?
}

# shellcheck shell=sh disable=SC2154 # variables set by the file that sources this one
# `./heapyard test`: every test there is, one closing line, exit 1 if any failed.

# run_tests PYTEST-ARGUMENT...
run_tests() {
  cd -- "$HEAPYARD_ROOT" || exit
  native_report=$state/test-native.xml
  rm -f -- "$state"/test-*.xml

  native=0
  ctest --test-dir "$build" --output-on-failure --no-tests=error --output-junit "$native_report" || native=$?
  rest=0
  if [ $# -gt 0 ]; then
    "$python" -I -m pytest --junitxml="$state/test-python.xml" "$@" || rest=$?
  else
    # The end-to-end tests measure and have the machine to themselves; those of the statistics only calculate.
    "$python" -I -m pytest --junitxml="$state/test-e2e.xml" tests/e2e || rest=$?
    log=$state/test-statistics.log
    "$python" -I -m pytest --junitxml="$state/test-statistics.xml" tests/lab -k test_stats >"$log" 2>&1 &
    statistics=$!
    trap 'kill "$statistics"; exit 130' INT TERM
    "$python" -I -m pytest --junitxml="$state/test-lab.xml" tests/lab -k "not test_stats" || rest=$?
    wait "$statistics" || rest=$?
    trap - INT TERM
    cat -- "$log"
  fi
  "$python" -I "$setup/closing_line.py" "$native" "$native_report" "$rest" "$state"/test-[!n]*.xml
}

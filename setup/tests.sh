# shellcheck shell=sh disable=SC2154 # variables set by the file that sources this one
# `./heapyard test`: every test there is, one closing line, exit 1 if any failed.

# run_tests PYTEST-ARGUMENT...
run_tests() {
  cd -- "$HEAPYARD_ROOT" || exit
  native_report=$state/test-native.xml
  python_report=$state/test-python.xml
  rm -f -- "$native_report" "$python_report"

  native=0
  ctest --test-dir "$build" --output-on-failure --no-tests=error --output-junit "$native_report" || native=$?
  rest=0
  "$python" -I -m pytest --junitxml="$python_report" "$@" || rest=$?
  "$python" -I "$setup/closing_line.py" "$native" "$native_report" "$rest" "$python_report"
}

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154 # variables set by the file that sources this one
# What set-up tells people, all of it on standard error: a line per step, its clock ticking on a terminal, and one
# sentence when it fails. Everything the tools say goes to $log.

clock=
step_from=1

say() {
  printf 'heapyard: %s\n' "$*" >&2
}

give_up() {
  say "$*"
  exit 3
}

interrupted() {
  trap - INT TERM HUP
  exec 2>&8 # a step's own goes to the log
  stop_clock
  stop_test_packages
  say "set-up interrupted; start again to go on"
  exit "$1"
}

# step TITLE REMEDY COMMAND...: run the command into the log; on failure show why, and exit 3.
step() {
  step_title=$1
  step_remedy=$2
  shift 2
  step_from=$(($(wc -l <"$log") + 1))
  step_begin=$(date +%s)
  start_clock
  if "$@" >>"$log" 2>&1 </dev/null; then
    stop_clock
    say "$step_title: done ($(minutes $(($(date +%s) - step_begin))))"
  else
    stop_clock
    say "$step_title: failed; the last lines of $log:"
    step_log | tail -n 12 | sed 's/^/    /' >&2
    give_up "$(cause "$step_remedy")"
  fi
}

# What the tools have said since the step began.
step_log() {
  tail -n "+$step_from" -- "$log"
}

# cause REMEDY: one sentence on why the step failed: an outer reason the log gives away, else the step's own remedy.
cause() {
  if step_log | grep -qE 'No space left on device|Disk quota exceeded'; then
    echo "the disk is full: free about 2 GB and start again"
  elif step_log | grep -qE 'Could not get lock|Unable to acquire the dpkg'; then
    echo "another package manager is at work on this machine: let it end and start again"
  elif step_log | grep -q 'CERTIFICATE_VERIFY_FAILED'; then
    echo "a proxy presents a certificate that pip does not trust: set PIP_CERT to the file of certificates you trust, then start again"
  elif step_log | grep -qE 'Temporary failure|[Nn]ame resolution|Could not resolve|Failed to establish a new connection|Network is unreachable|Connection (timed out|refused|reset)|Cannot connect to proxy|Could not connect|Cannot initiate the connection'; then
    echo "the network cannot be reached: check the connection and the proxy settings, then start again"
  else
    echo "$1"
  fi
}

# minutes SECONDS: "7 s", "2 min 05 s".
minutes() {
  if [ "$1" -lt 60 ]; then
    printf '%d s' "$1"
  else
    printf '%d min %02d s' $(($1 / 60)) $(($1 % 60))
  fi
}

start_clock() {
  if [ -t 2 ]; then
    printf '\rheapyard: %s ...' "$step_title" >&2
  else
    say "$step_title ..."
  fi
  tick 8>&- 9>&- &
  clock=$!
}

stop_clock() {
  if [ -z "$clock" ]; then return; fi
  kill -KILL "$clock" 2>/dev/null || : # a clock that has just begun could miss another signal
  wait "$clock" 2>/dev/null || :
  clock=
  if [ -t 2 ]; then printf '\r\033[K' >&2; fi
}

# Runs beside the step, at most a second longer than this shell. The sleep holds no descriptor a reader of ours could wait on.
tick() {
  passed=0
  waiting=
  while sleep 1 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    passed=$((passed + 1))
    if [ -z "$waiting" ] && step_log 2>/dev/null | grep -q 'Waiting for cache lock'; then
      waiting=' (waiting for another package manager to end)'
      if [ ! -t 2 ]; then say "$step_title$waiting"; fi
    fi
    if [ -t 2 ]; then printf '\r\033[Kheapyard: %s ... %s%s' "$step_title" "$(minutes "$passed")" "$waiting" >&2; fi
  done
}

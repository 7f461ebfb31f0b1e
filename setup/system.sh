# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154 # variables set by the file that sources this one
# Step 1: the system's packages, as Debian and Ubuntu name them.
#
# A list has one package per line; `a|b`: the first of them that exists, the last being in Debian 12 and Ubuntu 24.04; a
# leading `?`: where the distribution has none, Heapyard says so and does without. `#` starts a comment.

set_up_system() {
  if [ "${HEAPYARD_SYSTEM_PACKAGES:-}" = skip ]; then return; fi
  have_packages debian-packages
  if [ "$1" = test ]; then have_packages debian-packages-test; fi
}

# have_packages LIST: after it, every package of setup/LIST is installed, or known not to exist here.
have_packages() {
  list=$setup/$1
  stamp=$stamps/$1
  if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
    say "this system has no apt; Heapyard needs what Debian calls: $(wanted | tr '|?\n' '/  ')"
    give_up "install these by hand, then start again with HEAPYARD_SYSTEM_PACKAGES=skip"
  fi

  # The stamp: the list's key, then the lines of the list that this distribution turned out to have no package for.
  key=$(hash_of "setup/$1")
  known=
  if [ -r "$stamp" ] && [ "$(head -n 1 -- "$stamp")" = "$key" ]; then known=$(tail -n +2 -- "$stamp"); fi
  absent=
  lacking=$(lacking | grep -vxF -e "$known" || :)
  if [ -n "$lacking" ]; then
    choose
    get_privilege
    if [ -n "$absent" ]; then
      step "system package index" "" update_index
      choose
    fi
    needed=$(printf '%s\n' "$absent" | sed '/^?/d; s/|/ or /g' | paste -sd ' ')
    if [ -n "$needed" ]; then
      give_up "$(cause "this distribution has no package $needed, which Heapyard needs; install it by hand, then start again with HEAPYARD_SYSTEM_PACKAGES=skip")"
    fi
    if [ -n "$absent" ]; then
      say "not to be had from this distribution, so left out: $(printf '%s\n' "$absent" | sed 's/^?//; s/|/ or /g' | paste -sd ',')"
    fi
    if [ -n "$chosen" ]; then
      say "installing with apt: $chosen"
      step "system packages" "put right what apt says, then start again" install_packages
    fi
  fi
  printf '%s\n' "$key" "$known" "$absent" | sed '/^$/d' >"$stamp"
}

wanted() {
  sed 's/#.*//; s/[[:space:]]//g; /^$/d' "$list"
}

# The lines of the list for which no package is installed. One dpkg-query.
lacking() {
  # shellcheck disable=SC2016,SC2046 # dpkg-query's own variables; package names, one word each
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' $(wanted | tr '|?' '  ') 2>/dev/null || :)
  wanted | awk -v installed="$installed" '
    BEGIN { n = split(installed, line, "\n"); for (i = 1; i <= n; i++) if (sub(/^installed /, "", line[i])) have[line[i]] }
    { n = split(substr($0, /^\?/ ? 2 : 1), names, "|"); found = 0
      for (i = 1; i <= n; i++) if (names[i] in have) found = 1
      if (!found) print }'
}

# Sets $chosen (packages to install, on one line) and $absent (lines with no candidate) from $lacking.
choose() {
  # shellcheck disable=SC2046,SC2086 # package names, one word each
  choice=$(LC_ALL=C apt-cache policy $(printf '%s' "$lacking" | tr '|?' '  ') 2>/dev/null | awk -v lacking="$lacking" '
    /^[^ ]/ { sub(/:$/, "", $1); name = $1 }
    /^ *Candidate:/ && $2 != "(none)" { exists[name] = 1 }
    END {
      lines = split(lacking, line, "\n")
      for (l = 1; l <= lines; l++) {
        n = split(substr(line[l], line[l] ~ /^\?/ ? 2 : 1), names, "|"); pick = ""
        for (i = n; i > 0; i--) if (names[i] in exists) pick = names[i]
        print pick == "" ? "absent " line[l] : "chosen " pick
      }
    }')
  chosen=$(printf '%s\n' "$choice" | sed -n 's/^chosen //p' | paste -sd ' ')
  absent=$(printf '%s\n' "$choice" | sed -n 's/^absent //p')
}

# Sets $privilege to what makes a command run as root: nothing for root itself, else sudo; without either, says what to run.
get_privilege() {
  privilege=
  if [ "$(id -u)" -eq 0 ]; then return; fi
  privilege=sudo
  if command -v sudo >/dev/null 2>&1; then
    if sudo -n true 2>/dev/null; then return; fi
    if [ -t 0 ] && [ -t 2 ]; then
      say "installing system packages with sudo: $(to_install)"
      if sudo -v; then return; fi
    fi
    give_up "system packages are missing and only an administrator can install them; run this, then start again:
    sudo sh -c 'apt-get update && apt-get install --yes --no-install-recommends $(to_install)'"
  fi
  give_up "system packages are missing and only root can install them; have this run as root, then start again:
    apt-get update && apt-get install --yes --no-install-recommends $(to_install)"
}

# What a person has to install: the packages chosen, and the last alternative of what apt's index does not (yet) show.
to_install() {
  printf '%s %s\n' "$chosen" "$(printf '%s\n' "$absent" | sed 's/^?//; s/.*|//' | paste -sd ' ')" | sed 's/^ //; s/ $//'
}

as_root() {
  # apt starts services that would hold the lock and the standard error of set-up; hence 8>&- 9>&-.
  $privilege env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C.UTF-8 "$@" 8>&- 9>&-
}

# One archive of several may be out of reach and the rest suffice: what counts is which packages are known afterwards.
update_index() {
  as_root apt-get update || :
}

install_packages() {
  if install_chosen; then return 0; fi
  if step_log | grep -qE 'dpkg was interrupted|fix-broken'; then
    # A set-up (or anything else) was killed while dpkg was at work.
    as_root dpkg --configure -a
    as_root apt-get --fix-broken install --yes --no-install-recommends
  elif step_log | grep -qE '404 +Not Found|Unable to fetch some archives'; then
    update_index
  else
    return 1
  fi
  install_chosen
}

install_chosen() {
  # shellcheck disable=SC2086 # package names, one word each
  as_root apt-get -o DPkg::Lock::Timeout=600 install --yes --no-install-recommends $chosen
}

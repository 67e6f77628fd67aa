#!/bin/sh
# Everything that tests need, then all tests. Stops at the first step that fails and names it.
set -eu
cd "$(dirname "$0")/.."
# Some tests make file systems; the tools for that are not in every user's path.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

step=
trap '[ $? -eq 0 ] || echo "test: FAILED in step: $step" >&2' EXIT
begin() {
    step=$1
    printf '\n== %s\n' "$step"
}

begin "setup"
scripts/setup.sh test
begin "web pages"
scripts/web.sh
begin "format and lints"
scripts/check.sh
begin "sample library"
scripts/sample.sh
begin "cargo test"
cargo test --workspace
if [ -f fuzz/Cargo.toml ]; then
    begin "fuzz targets on their corpus"
    cargo test --manifest-path fuzz/Cargo.toml
fi
if [ -f web/package.json ]; then
    begin "web unit tests"
    (cd web && npm test --silent)
    begin "browser tests"
    scripts/browser.sh
fi
printf '\nAll tests passed.\n'

#!/bin/sh
# Runs the browser tests of web/ against the real server and the sample library. Called by
# scripts/test.sh after everything it needs was installed.
#
# The tests find in their environment: HEADLONG_BINARY, HEADLONG_LIBRARY and CHROMIUM.
set -eu
cd "$(dirname "$0")/.."

[ -f web/package.json ] && grep -q '"test:browser"' web/package.json || {
    echo "browser: there are no browser tests in this tree"
    exit 0
}
cargo build --package headlong
scripts/sample.sh
root=$(pwd)
target=${CARGO_TARGET_DIR:-$root/target}
HEADLONG_BINARY=$target/debug/headlong
HEADLONG_LIBRARY=$root/sample
CHROMIUM=${CHROMIUM:-$(command -v chromium)}
export HEADLONG_BINARY HEADLONG_LIBRARY CHROMIUM
cd web
npm run --silent test:browser

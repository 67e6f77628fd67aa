#!/bin/sh
# Formatting, lints and the tests that run anywhere: no root, no apt-get, no npm. Skipped are the
# packages below and the pages; `make test` runs those too.
set -eu
cd "$(dirname "$0")/.."

# Packages that need root, FUSE and loop devices, nginx, the built pages or Python.
left_out="headlong-vdisk headlong-lab headlong-testkit headlong-e2e-tests headlong-python"

scripts/check.sh
excluded=
for package in $left_out; do
    excluded="$excluded --exclude $package"
done
# shellcheck disable=SC2086 # the options are words
cargo test --workspace $excluded
if command -v python3 >/dev/null; then
    python3 scripts/soak/tests.py
else
    left_out="$left_out, the soak's own tests"
fi
echo "unit: passed; skipped: $left_out, web pages (make test runs them)"

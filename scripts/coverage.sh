#!/bin/sh
# Line coverage of the code that operators run: the wing `server` and `programs/headlong`, by their
# own tests and the end-to-end tests. Installs cargo-llvm-cov into target/tools, and LLVM's tools by
# rustup or, without it, by apt-get, if they are missing.
#
#   scripts/coverage.sh [FILTER...]     # only the end-to-end tests in files of these names
#
# It takes as long as these tests and a build of everything, and is not part of `make test`. A
# failed test does not end it: the covered lines count, and the failure is reported. A killed server
# writes no profile, so lines that only it ran do not count. The uncovered ranges are in
# target/coverage/report/lines.txt.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

version=0.9.1
target=${CARGO_TARGET_DIR:-$PWD/target}
tools=$target/tools
report=$target/coverage/report
PATH=$PATH:$tools/bin
command -v cargo-llvm-cov >/dev/null ||
    cargo install --locked cargo-llvm-cov --version "$version" --root "$tools"

# Tools of another LLVM version cannot read the profiles.
llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
if [ -z "${LLVM_COV:-}" ]; then
    if command -v rustup >/dev/null && rustup component add llvm-tools >/dev/null 2>&1; then
        host=$(rustc -vV | sed -n 's/^host: //p')
        bin=$(rustc --print sysroot)/lib/rustlib/$host/bin
        LLVM_COV=$bin/llvm-cov LLVM_PROFDATA=$bin/llvm-profdata
    else
        command -v "llvm-cov-$llvm" >/dev/null || {
            as_root=
            [ "$(id -u)" -eq 0 ] || as_root=sudo
            $as_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -y -qq --no-install-recommends "llvm-$llvm" >/dev/null
        }
        LLVM_COV=$(command -v "llvm-cov-$llvm") LLVM_PROFDATA=$(command -v "llvm-profdata-$llvm")
    fi
    export LLVM_COV LLVM_PROFDATA
fi

# A separate target folder: the instrumented build is used only for coverage, and for servers in
# tests.
mkdir -p "$report"
export CARGO_TARGET_DIR="$target/coverage"
settings=$(cargo llvm-cov show-env --sh 2>/dev/null)
eval "$settings"
# Processes of the same program share a few profile files, instead of some MB for each process.
export LLVM_PROFILE_FILE="$CARGO_TARGET_DIR/headlong-%8m.profraw"
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
rm -f "$CARGO_TARGET_DIR"/*.profraw

packages="headlong-engine headlong-flash headlong-http headlong-pull headlong-media
    headlong-library headlong-kernel headlong-storage headlong-telemetry headlong-net
    headlong-access headlong-edge headlong-serve headlong-survey headlong"
chosen=
for package in $packages; do
    chosen="$chosen --package $package"
done
ends=
for filter in "$@"; do
    ends="$ends $filter::"
done

# Tests start this binary, instead of checking repeatedly whether it must be built.
cargo build --package headlong --package headlong-lab --package headlong-deception
export HEADLONG_BIN="$CARGO_TARGET_DIR/debug/headlong"

failed=
# shellcheck disable=SC2086 # the options are words
cargo test --no-fail-fast --lib --bins --tests $chosen || failed="$failed unit"
# shellcheck disable=SC2086
cargo test --no-fail-fast --package headlong-e2e-tests -- $ends || failed="$failed end-to-end"
# The disk probe's pages are checked there.
cargo test --no-fail-fast --package headlong-lab --test all -- disk:: disk_measured:: ||
    failed="$failed disk"

cargo llvm-cov report --lcov --output-path "$report/lcov.info" 2>"$report/errors.txt"
python3 scripts/coverage.py "$report/lcov.info" "$report/lines.txt"
[ -z "$failed" ] || echo "coverage: failed tests:$failed" >&2

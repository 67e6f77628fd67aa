#!/bin/sh
# Which lines of what operators run are run by tests: the wing `server` and `programs/headlong`, by
# the tests of their own and the end-to-end tests. Installs cargo-llvm-cov into target/tools, and
# LLVM's tools by rustup or, without it, by apt-get, if they are not there.
#
#   scripts/coverage.sh [FILTER...]     # only the end-to-end tests whose files are named so
#
# It takes as long as these tests and a build of everything, and is no part of `make test`. Tests
# that fail do not end it: it counts what they ran, and says so. Servers that are killed write no
# profile: what only they ran does not count. What was not run is in target/coverage/report/lines.txt.
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

# Tools of another LLVM cannot read the profiles.
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

# A target of its own: nothing else is built so, and servers that tests start are built by them.
mkdir -p "$report"
export CARGO_TARGET_DIR="$target/coverage"
settings=$(cargo llvm-cov show-env --sh 2>/dev/null)
eval "$settings"
# Processes that run the same program add to a few files, instead of one of some MB each.
export LLVM_PROFILE_FILE="$CARGO_TARGET_DIR/headlong-%8m.profraw"
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
rm -f "$CARGO_TARGET_DIR"/*.profraw

packages="headlong-engine headlong-flash headlong-http headlong-pull headlong-media
    headlong-library headlong-serve headlong-survey headlong"
chosen=
for package in $packages; do
    chosen="$chosen --package $package"
done
ends=
for filter in "$@"; do
    ends="$ends --test $filter"
done

# Tests start this one, instead of looking again and again whether it is to be built.
cargo build --package headlong --package headlong-lab --package headlong-deception
export HEADLONG_BIN="$CARGO_TARGET_DIR/debug/headlong"

failed=
# shellcheck disable=SC2086 # the options are words
cargo test --no-fail-fast --lib --bins --tests $chosen || failed="$failed unit"
# shellcheck disable=SC2086
cargo test --no-fail-fast --package headlong-e2e-tests $ends || failed="$failed end-to-end"
# Pages of what was measured of disks are looked at there.
cargo test --no-fail-fast --package headlong-lab --test disk --test disk_measured ||
    failed="$failed disk"

cargo llvm-cov report --lcov --output-path "$report/lcov.info" 2>"$report/errors.txt"
python3 scripts/coverage.py "$report/lcov.info" "$report/lines.txt"
[ -z "$failed" ] || echo "coverage: some of these tests failed:$failed" >&2

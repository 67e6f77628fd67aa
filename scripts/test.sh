#!/bin/sh
# Installs the tests' requirements, then runs all tests. Stops at the first failing step and names
# it. At the end it prints the times of the steps and of the slowest packages, and the skipped
# tests.
set -eu
cd "$(dirname "$0")/.."
# Some tests make file systems; not every user has the tools for that in PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

work=$(mktemp -d)
# Tests that cannot run here append a line to it (testkit/src/skip.rs).
HEADLONG_SKIPPED=$work/skipped
export HEADLONG_SKIPPED
: >"$HEADLONG_SKIPPED"
: >"$work/steps"

step=
finish() {
    status=$?
    [ "$status" -eq 0 ] || echo "test: FAILED in step: $step" >&2
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

# Writes the duration of the ending step to a file.
end_step() {
    [ -z "$step" ] || printf '%6d s  %s\n' $(($(date +%s) - began)) "$step" >>"$work/steps"
}
begin() {
    end_step
    step=$1
    began=$(date +%s)
    printf '\n== %s\n' "$step"
}

# The programs that tests start are those that cargo builds for the tests of all packages. Any other
# selection of packages has other features of their dependencies, and would be built again.
target=${CARGO_TARGET_DIR:-$PWD/target}
HEADLONG_BIN=$target/debug/headlong
export HEADLONG_BIN

# Runs these tests of the workspace, saves the output, and returns the exit code of cargo: a pipe
# returns that of its last command. Examples are only checked, by the lints.
cargo_test() {
    { cargo test --workspace --no-fail-fast "$@" 2>&1 || echo $? >"$work/failed"; } |
        tee -a "$work/cargo"
    [ ! -e "$work/failed" ] || return "$(cat "$work/failed")"
}

# The ten packages with the slowest tests: the times of their test programs, summed. Cargo names a
# program by its file, so its package is found by that name.
slowest() {
    awk '
        / Running .*\(/ { name = $NF; sub(/.*\//, "", name); sub(/-[0-9a-f]+\)$/, "", name) }
        / Running unittests / { package = name }
        / Running tests\/end_to_end/ { package = name }
        /^test result: .* finished in / { seconds = $NF; sub(/s$/, "", seconds); sum[package] += seconds }
        END { for (package in sum) printf "%8.1f s  %s\n", sum[package], package }
    ' "$work/cargo" | sort -rn | head -n 10
}

begin "setup"
scripts/setup.sh test
begin "packages of the tests in Python"
HEADLONG_PYTHON_PACKAGES=$(scripts/python_packages.sh)
export HEADLONG_PYTHON_PACKAGES
begin "web pages"
scripts/web.sh
begin "format and lints"
scripts/check.sh
begin "sample library"
scripts/sample.sh
begin "cargo test"
cargo_test --lib --bins --test '[!e]*'
begin "end-to-end tests"
# All tests whose program has a name in e. These wait most of the time: two for each processor.
RUST_TEST_THREADS=$((2 * $(nproc)))
export RUST_TEST_THREADS
cargo_test --test 'e*'
unset RUST_TEST_THREADS
begin "examples in documentation"
cargo test --workspace --doc
begin "HTTP/2 conformance"
scripts/h2spec.sh
begin "Kubernetes example"
scripts/kubernetes.py
begin "mutations"
cargo test --workspace --features headlong-faults/mutants --test faults mutants::
begin "tests of the soak's checks"
python3 scripts/soak/tests.py
if [ -f web/package.json ]; then
    begin "web unit tests"
    (cd web && npm test --silent)
    begin "browser tests"
    scripts/browser.sh
fi
end_step

printf '\n== Time of the steps\n'
cat "$work/steps"
printf '\n== The slowest packages, by the times of their tests\n'
slowest
printf '\n== Skipped: %d\n' "$(wc -l <"$HEADLONG_SKIPPED")"
sort "$HEADLONG_SKIPPED"
printf '\nAll tests passed.\n'

#!/bin/sh
# Smoke test of the bench: one short run of experiments/tiny.toml on an emulated drive, which needs
# root (scripts/setup.sh bench installs the rest), and the same run in virtual time. The figures
# have no meaning. Both must succeed; only cargo's build products remain.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

[ "$(id -u)" -eq 0 ] || {
    echo "bench-smoke: an emulated drive needs root: sudo make bench-smoke" >&2
    exit 1
}
cargo build --release --package headlong --package headlong-lab
headlong=${CARGO_TARGET_DIR:-target}/release/headlong-lab

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

run="experiments/tiny.toml --server headlong --workload sd --rate 4MiB/s"
echo "bench-smoke: on an emulated drive"
# shellcheck disable=SC2086 # the options are words
"$headlong" bench run $run --store "$work/store" --results "$work/real"
echo "bench-smoke: in virtual time"
# shellcheck disable=SC2086
"$headlong" simulate $run --results "$work/virtual"
echo "bench-smoke: both succeeded"

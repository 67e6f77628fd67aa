#!/bin/sh
# What a byte from memory costs in processor time, headlong beside nginx: installs what is missing,
# builds the server and runs bench_hot.py, which says how it measures and takes the options.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

scripts/setup.sh hot
cargo build --release --package headlong
exec python3 scripts/bench_hot.py --headlong "${CARGO_TARGET_DIR:-target}/release/headlong" "$@"

#!/bin/sh
# CPU time of a byte from memory, headlong and nginx: installs missing packages, builds the server
# and runs bench_hot.py, which describes the method and takes the options.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

scripts/setup.sh hot
cargo build --release --package headlong
exec python3 scripts/bench_hot.py --headlong "${CARGO_TARGET_DIR:-target}/release/headlong" "$@"

#!/bin/sh
# The programs, optimised, with the pages: target/release/headlong, headlong-lab, libheadlong.so.
#
#   ARCH=arm64 scripts/build.sh     # cross build in target/aarch64-unknown-linux-gnu/release
set -eu
cd "$(dirname "$0")/.."
. scripts/arch.sh

scripts/web.sh
set -- --release --package headlong --package headlong-lab --package headlong-deception
if [ -n "$tools" ]; then
    need "${tools}gcc" "gcc-$machine-linux-gnu libc6-dev-$ARCH-cross"
    rustup target add "$machine-unknown-linux-gnu"
    upper=$(echo "$machine" | tr a-z A-Z)
    export "CARGO_TARGET_${upper}_UNKNOWN_LINUX_GNU_LINKER=${tools}gcc"
    # The page size is not known here, and kernels of arm64 have pages of 4, 16 or 64 KiB.
    [ "$ARCH" != arm64 ] || export JEMALLOC_SYS_WITH_LG_PAGE=16
    set -- "$@" --target "$machine-unknown-linux-gnu"
fi
exec cargo build "$@"

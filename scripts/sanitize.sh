#!/bin/sh
# Checks of unsafe code and of threads beyond ordinary tests. Not part of `make test`.
#
#   scripts/sanitize.sh [models|address|miri|thread]...     # default: all
#
#   models   loom's models (tests/models) with one more preemption than `make test`
#   address  AddressSanitizer: tests of the crates with unsafe code, with the stable compiler
#   miri     Miri on the memory pool: accesses within bounds, and no data races
#   thread   ThreadSanitizer: tests of a device's threads, with an instrumented standard library
#
# miri and thread need a nightly toolchain of rustup; without one they are skipped, with a message.
set -eu
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
host=$(rustc -vV | sed -n 's/^host: //p')
nightly=${HEADLONG_NIGHTLY:-nightly}
done_of= left_out=

# Installs components of the nightly toolchain; fails if that is impossible.
nightly_with() {
    command -v rustup >/dev/null && rustup run "$nightly" rustc --version >/dev/null 2>&1 &&
        rustup component add --toolchain "$nightly" "$@" >/dev/null 2>&1
}

# Loom tries every order of steps.
models() {
    LOOM_MAX_PREEMPTIONS=3 cargo test --release --package headlong-models --test orders
}

# The standard library is not instrumented, which loses nothing here: its calls are intercepted.
# With an explicit target, build scripts and macros are built without the sanitizer.
address() {
    export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes"
    export ASAN_OPTIONS="detect_leaks=0:abort_on_error=1" CARGO_TARGET_DIR="$target/address"
    cargo test --target "$host" --lib \
        --package headlong-kernel --package headlong-storage --package headlong-net \
        --package headlong-library --package headlong-deception --package headlong-reception
}

# Without the kernel: tests that need a ring, a memory file or a socket are skipped, and those that
# query memory in use. The pool uses the heap instead (raw/mapping_in_miri.rs).
miri() {
    export MIRIFLAGS="-Zmiri-many-seeds=0..8" CARGO_TARGET_DIR="$target/miri"
    cargo "+$nightly" miri test --package headlong-kernel --lib -- raw::pool \
        --skip memory_is_the_systems --skip each_byte_of_a_lease
}

# Locks of an uninstrumented standard library would be reported as races.
thread() {
    export RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR="$target/thread"
    cargo "+$nightly" test -Zbuild-std --target "$host" --lib \
        --package headlong-kernel --package headlong-storage
}

[ $# -gt 0 ] || set -- models address miri thread
for kind in "$@"; do
    printf '\n== %s\n' "$kind"
    case $kind in
    models | address) ;;
    miri) nightly_with miri rust-src || left_out="$left_out miri" ;;
    thread) nightly_with rust-src || left_out="$left_out thread" ;;
    *)
        echo "sanitize: $kind is unknown; use models, address, miri or thread" >&2
        exit 64
        ;;
    esac
    case " $left_out " in
    *" $kind "*) continue ;;
    esac
    ("$kind")
    done_of="$done_of $kind"
done
printf '\nsanitize: passed:%s\n' "$done_of"
[ -z "$left_out" ] || echo "sanitize: skipped for lack of a nightly toolchain:$left_out" >&2

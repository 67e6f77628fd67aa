#!/bin/sh
# Builds programs twice, in two folders, and compares them byte for byte. Inputs are the committed
# files, the built pages (web/dist), the compiler of rust-toolchain.toml and the dependencies of
# Cargo.lock; the build folder must have no effect.
#
#   scripts/reproducible.sh [PACKAGE...]      default: headlong; PROFILE=release, JOBS=2
set -eu
cd "$(dirname "$0")/.."

profile=${PROFILE:-release}
[ $# -gt 0 ] || set -- headlong
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# One folder is deeper and has a path of another length.
for folder in "$work/one" "$work/another/deeper"; do
    mkdir -p "$folder"
    git archive HEAD | tar -x -C "$folder"
    if [ -d web/dist ]; then
        cp -R web/dist "$folder/web/dist"
    fi
    packages=
    for package in "$@"; do
        packages="$packages --package $package"
    done
    # Panic messages and debug information contain paths.
    from=$(cd "$folder" && pwd -P)
    home=${CARGO_HOME:-$HOME/.cargo}
    (
        cd "$folder"
        export RUSTFLAGS="--remap-path-prefix=$from=/headlong --remap-path-prefix=$home=/cargo"
        export CFLAGS="-ffile-prefix-map=$from=/headlong -ffile-prefix-map=$home=/cargo"
        export CARGO_TARGET_DIR="$folder/target" SOURCE_DATE_EPOCH=0
        # shellcheck disable=SC2086 # the options are words
        cargo build --quiet --locked --profile "$profile" -j "${JOBS:-2}" $packages
    )
    out=$profile
    [ "$profile" != dev ] || out=debug
    # The final programs; parts of them are below `deps`.
    (cd "$folder/target/$out" && find . -maxdepth 1 -type f ! -name '.*' ! -name '*.d' -exec sha256sum {} +) |
        sort -k 2 >"$folder.sums"
done

cat "$work/one.sums"
if ! cmp -s "$work/one.sums" "$work/another/deeper.sums"; then
    echo "reproducible: the second build differs:" >&2
    diff "$work/one.sums" "$work/another/deeper.sums" >&2 || true
    exit 1
fi
echo "reproducible: both builds are identical"

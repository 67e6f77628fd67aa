# shellcheck shell=sh
# Sourced by the scripts that build, pack or run programs of another architecture:
#
#   ARCH=amd64|arm64    default: that of this machine
#   BIN_DIR=DIR         folder of existing programs; default: what `make build` fills
#
# Sets ARCH, machine, triple, BIN_DIR, and for a cross build the prefix of its tools.
case $(uname -m) in
x86_64) here=amd64 ;;
*) here=arm64 ;;
esac
ARCH=${ARCH:-$here}
case $ARCH in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*)
    echo "ARCH=$ARCH is unknown; use amd64 or arm64" >&2
    exit 64
    ;;
esac
triple=$machine-linux-gnu
tools=
profile=release
if [ "$ARCH" != "$here" ]; then
    tools=$triple-
    profile=$machine-unknown-linux-gnu/release
fi
built=${BIN_DIR:-}
BIN_DIR=${BIN_DIR:-${CARGO_TARGET_DIR:-target}/$profile}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# The same sources give the same packages and images.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
umask 022

# need PROGRAM PACKAGE: ends the script if a program is missing
need() {
    command -v "$1" >/dev/null || {
        echo "${0##*/}: $1 is missing; apt-get install $2" >&2
        exit 1
    }
}

# build_programs PROGRAM...: in BIN_DIR, unless it names a folder of existing ones
build_programs() {
    [ -n "$built" ] || ARCH=$ARCH scripts/build.sh
    for program in "$@"; do
        [ -f "$BIN_DIR/$program" ] || {
            echo "${0##*/}: $BIN_DIR/$program is missing; run make build" >&2
            exit 1
        }
    done
}

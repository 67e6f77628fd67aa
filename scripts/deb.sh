#!/bin/sh
# The Debian packages: target/debian/headlong_VERSION_ARCH.deb, and headlong-lab beside it. Programs
# are stripped; their debug information is in headlong-dbgsym and headlong-lab-dbgsym.
#
#   scripts/deb.sh                      # builds the programs (make build)
#   BIN_DIR=target/debug scripts/deb.sh # packs existing programs
#   OUT_DIR=DIR                         # output folder
#   MAINTAINER="NAME <ADDRESS>"         # maintainer of the package
#   LEVEL=0                             # compression: 0 (fast) to 9, default 6
#
# dpkg-deb packs a folder that this script fills: cargo-deb would have to be built first (minutes)
# and would still need the pages, the completions and the maintainer scripts from here.
set -eu
cd "$(dirname "$0")/.."

out=${OUT_DIR:-target/debian}
maintainer=${MAINTAINER:-The Headlong contributors <headlong@localhost>}
bin=${BIN_DIR:-}
if [ -z "$bin" ]; then
    make build
    bin=target/release
fi
for file in headlong headlong-lab libheadlong.so; do
    [ -f "$bin/$file" ] || {
        echo "deb: $bin/$file is missing; run make build" >&2
        exit 1
    }
done
command -v dpkg-shlibdeps >/dev/null || {
    echo "deb: dpkg-shlibdeps is missing; apt-get install dpkg-dev" >&2
    exit 1
}
version=$("$bin/headlong" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)
# The same sources give the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
umask 022

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# put MODE FILE TARGET
put() { install -D -m "$1" "$2" "$root/$3"; }

# Common to every package: maintainer, version, architecture.
begin_package() {
    package=$1
    root=$work/$package
    doc=usr/share/doc/$package
    mkdir -p "$root/$doc"
    sed -n '3,$p' LICENSE-MIT | sed 's/^$/./; s/^/ /' >"$work/mit"
    sed -e "/@MIT@/{r $work/mit" -e 'd}' packaging/debian/copyright >"$root/$doc/copyright"
    {
        printf '%s (%s) unstable; urgency=medium\n\n' "$package" "$version"
        printf '  * CHANGELOG.md in /usr/share/doc/headlong lists the changes.\n\n'
        printf ' -- %s  %s\n' "$maintainer" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
    } | gzip -9n >"$root/$doc/changelog.gz"
}

# strip_program FILE: strips it; its debug information goes to the package PACKAGE-dbgsym, where gdb
# and backtraces find it by the build id.
strip_program() {
    id=$(readelf -n "$root/$1" | sed -n 's/^ *Build ID: *//p')
    [ -n "$id" ] || {
        echo "deb: $1 has no build id; link with -Wl,--build-id" >&2
        exit 1
    }
    rest=${id#??}
    symbols=$work/$package-dbgsym/usr/lib/debug/.build-id/${id%"$rest"}
    mkdir -p "$symbols"
    objcopy --only-keep-debug --compress-debug-sections "$root/$1" "$symbols/$rest.debug"
    chmod 644 "$symbols/$rest.debug"
    strip --strip-unneeded "$root/$1"
}

# symbols_package PACKAGE
symbols_package() {
    begin_package "$1-dbgsym"
    # Copyright and changelog are those of the package.
    rm -r "${root:?}/$doc"
    ln -s "$1" "$root/$doc"
    end_package debug "Depends: $1 (= $version)
Auto-Built-Package: debug-symbols" "debug symbols for $1" \
        " Function names and line numbers for backtraces, gdb and perf."
}

# end_package SECTION "FIELDS" SUMMARY TEXT
end_package() {
    mkdir -p "$root/DEBIAN" "$work/debian"
    # As reported by the programs themselves.
    : >"$work/debian/control"
    needs=$(cd "$work" && find "$root/usr" -type f \( -path '*/bin/*' -o -name '*.so' \) \
        -exec dpkg-shlibdeps -O --ignore-missing-info {} + 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\n' "$package" "$version" "$architecture"
        printf 'Maintainer: %s\nSection: %s\nPriority: optional\n' "$maintainer" "$1"
        printf 'Installed-Size: %s\n' "$(du -sk --exclude=DEBIAN "$root" | cut -f1)"
        printf '%s\n' "$2" | sed "s/@NEEDS@/$needs/"
        printf 'Description: %s\n%s\n' "$3" "$4"
    } >"$root/DEBIAN/control"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    mkdir -p "$out"
    file=$out/${package}_${version}_$architecture.deb
    dpkg-deb --root-owner-group -Zxz "-z${LEVEL:-6}" --build "$root" "$file" >/dev/null
    echo "deb: $file"
}

begin_package headlong
put 755 "$bin/headlong" usr/bin/headlong
put 644 "$bin/libheadlong.so" usr/lib/headlong/libheadlong.so
strip_program usr/bin/headlong
strip_program usr/lib/headlong/libheadlong.so
for unit in headlong headlong-reception headlong-mount@; do
    put 644 "packaging/$unit.service" "usr/lib/systemd/system/$unit.service"
done
put 644 packaging/sysusers.conf usr/lib/sysusers.d/headlong.conf
put 644 packaging/headlong.toml etc/headlong/headlong.toml
put 644 packaging/logrotate etc/logrotate.d/headlong
put 644 packaging/debian/lintian-overrides usr/share/lintian/overrides/headlong
for page in docs/operate/*; do
    put 644 "$page" "$doc/${page##*/}"
    # Links to files outside the package are replaced by their text.
    sed -i 's#\[\([^]]*\)\](\.\./[^)]*)#\1#g' "$root/$doc/${page##*/}"
done
put 644 CHANGELOG.md "$doc/CHANGELOG.md"
put 644 packaging/prometheus/alerts.yml "$doc/prometheus/alerts.yml"
put 644 packaging/grafana/headlong.json "$doc/grafana/headlong.json"
mkdir -p "$root/usr/share/man/man1" "$root/usr/share/man/man5" "$root/usr/share/bash-completion/completions" \
    "$root/usr/share/zsh/vendor-completions" "$root/usr/share/fish/vendor_completions.d"
"$bin/headlong" manual "$root/usr/share/man/man1"
mv "$root"/usr/share/man/man1/*.5 "$root/usr/share/man/man5"
gzip -9n "$root"/usr/share/man/man?/*
"$bin/headlong" completions bash >"$root/usr/share/bash-completion/completions/headlong"
"$bin/headlong" completions zsh >"$root/usr/share/zsh/vendor-completions/_headlong"
"$bin/headlong" completions fish >"$root/usr/share/fish/vendor_completions.d/headlong.fish"
mkdir -p "$root/DEBIAN"
printf '/etc/headlong/headlong.toml\n/etc/logrotate.d/headlong\n' >"$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 755 "packaging/debian/$script" "$root/DEBIAN/$script"
done
end_package httpd "Depends: @NEEDS@, systemd | systemd-standalone-sysusers | systemd-sysusers
Recommends: ca-certificates, logrotate
Suggests: headlong-lab, prometheus
Provides: httpd" "server of long-tail HTTP streaming video on hard disks" \
    " Serves large video libraries from hard disks: it reads far ahead for each
 viewer, in the order in which the data lies on the disk, and lets in only as
 many viewers as the disk can serve in time. URLs are file paths, as with root
 in nginx."
symbols_package headlong

begin_package headlong-lab
put 755 "$bin/headlong-lab" usr/bin/headlong-lab
strip_program usr/bin/headlong-lab
end_package net "Depends: @NEEDS@
Suggests: headlong, fuse3, nginx" "instruments that measure servers of video" \
    " Emulated disks, generated viewers, experiments with any HTTP server, the
 engine of Headlong in virtual time, and reports from request logs."
symbols_package headlong-lab

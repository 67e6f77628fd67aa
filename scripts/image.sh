#!/bin/sh
# The OCI image of the server: target/image/headlong-VERSION-ARCH.tar, for `podman load --input`.
# It has the program of the packages, the C library and the certificates of Debian's current
# packages, and neither a shell nor a package manager. No registry is asked.
#
#   scripts/image.sh                      # builds the programs (make build)
#   BIN_DIR=target/debug scripts/image.sh # packs an existing program; a debug build lacks the pages
#   ARCH=arm64                            # cross build; default: this machine
#   OUT_DIR=DIR                           # output folder
#   SUITE=bookworm                        # Debian's release, at least as new as the build machine
set -eu
cd "$(dirname "$0")/.."
. scripts/arch.sh

need mmdebstrap mmdebstrap
need buildah buildah
need "${tools}strip" "binutils-$machine-linux-gnu"
build_programs headlong
out=${OUT_DIR:-${CARGO_TARGET_DIR:-target}/image}
mkdir -p "$out"
file=$out/headlong-$version-$ARCH.tar
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# Packages are only unpacked, so that a foreign architecture needs no emulation. Scanners of
# vulnerabilities read status.d.
packages="libc6 libgcc-s1 gcc-12-base ca-certificates"
mmdebstrap --variant=extract --architecture="$ARCH" --include="$packages" --extract-hook='
    mkdir "$1/var/lib/dpkg/status.d"
    for package in '"$packages"'; do
        dpkg-deb -f "$1/var/cache/apt/archives/${package}"_*.deb >"$1/var/lib/dpkg/status.d/$package"
    done' "${SUITE:-bookworm}" "$work/debian.tar" 2>"$work/log" || {
    cat "$work/log" >&2
    exit 1
}
mkdir "$work/debian"
tar -x -C "$work/debian" --no-same-owner --exclude=./dev -f "$work/debian.tar"

root=$work/root
mkdir -p "$root/usr/bin" "$root/var/lib/dpkg" "$root/usr/share/doc" "$root/etc/ssl/certs"
install -m 755 "$BIN_DIR/headlong" "$root/usr/bin/headlong"
"${tools}strip" --strip-unneeded "$root/usr/bin/headlong"
# The libraries that the program names, and the interpreter in it.
interpreter=$(readelf -l "$root/usr/bin/headlong" | sed -n 's/.*interpreter: \(.*\)]$/\1/p')
for library in $(readelf -d "$root/usr/bin/headlong" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p'); do
    [ "$library" = "${interpreter##*/}" ] ||
        install -D -m 755 "$work/debian/lib/$triple/$library" "$root/lib/$triple/$library"
done
install -D -m 755 "$work/debian$interpreter" "$root$interpreter"
cp -R "$work/debian/var/lib/dpkg/status.d" "$root/var/lib/dpkg/"
for package in $packages; do
    [ -h "$work/debian/usr/share/doc/$package" ] ||
        install -D -m 644 "$work/debian/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
done
install -D -m 644 LICENSE-MIT LICENSE-APACHE -t "$root/usr/share/doc/headlong"
cat "$work"/debian/usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
install -D -m 644 packaging/image/headlong.toml "$root/etc/headlong/headlong.toml"
echo 'root:x:0:0:root:/:/nonexistent
headlong:x:65532:65532:Headlong:/nonexistent:/nonexistent' >"$root/etc/passwd"
echo 'root:x:0:
headlong:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
mkdir -p "$root/tmp" "$work/state"
chmod 1777 "$root/tmp"

# A store of its own: images of the machine's user are not touched.
oci() { buildah --log-level error --root "$work/store" --runroot "$work/run" --storage-driver vfs "$@"; }
label=org.opencontainers.image
container=$(oci from --arch "$ARCH" scratch)
oci copy --quiet "$container" "$root" / >/dev/null
oci copy --quiet --chown 65532:65532 "$container" "$work/state" /var/lib/headlong >/dev/null
oci config --arch "$ARCH" --user 65532:65532 --stop-signal SIGTERM --port 8080 --port 8081 \
    --volume /var/lib/headlong --entrypoint '["/usr/bin/headlong"]' \
    --cmd "serve --config /etc/headlong/headlong.toml" \
    --label "$label.title=headlong" --label "$label.version=$version" \
    --label "$label.description=Server of long-tail HTTP streaming video on hard disks" \
    --label "$label.licenses=MIT OR Apache-2.0" \
    --label "$label.revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)" "$container"
rm -f "$file"
oci commit --quiet --rm --disable-compression=false --timestamp "$SOURCE_DATE_EPOCH" "$container" \
    "oci-archive:$file:localhost/headlong:$version" >/dev/null
echo "image: $file"

#!/bin/sh
# TLS by the kernel, on a kernel that has it: boots Debian's in qemu, with nothing else on it than
# the server, curl, openssl and a shell, and does there what scripts/ktls_inside.sh says. Not a part
# of `make test`.
#
#   scripts/ktls.sh                  # builds the server and the test
#   KERNEL=FILE.deb scripts/ktls.sh  # a kernel's package; else Debian's for clouds is downloaded
#   ACCEL=kvm scripts/ktls.sh        # by the processor, where /dev/kvm works
#   SECONDS_MAX=900                  # as long as it may take
#
# Times in there say nothing: the emulated processor has its own.
set -eu
cd "$(dirname "$0")/.."

die() {
    echo "ktls: $*" >&2
    exit 1
}

for program in qemu-system-x86_64 busybox dpkg-deb curl openssl bash ldd; do
    command -v "$program" >/dev/null ||
        die "$program is missing: apt install qemu-system-x86 busybox-static curl openssl"
done
[ "$(uname -m)" = x86_64 ] || die "this script knows kernels for x86_64 only"

target=${CARGO_TARGET_DIR:-target}
work=$target/ktls
mkdir -p "$work"
work=$(realpath "$work")

cargo build -p headlong
# The name of the test's program is in what cargo says.
build="cargo test --no-run -p headlong-e2e-tests --test tls"
test=$($build 2>&1 | sed -n 's/.*(\(.*\/tls-[0-9a-f]*\))$/\1/p')
[ -n "$test" ] || die "the test cannot be built: $build"

kernel=${KERNEL:-}
if [ -z "$kernel" ]; then
    package=$(apt-cache depends linux-image-cloud-amd64 |
        sed -n 's/ *Depends: \(linux-image-.*\)/\1/p')
    [ -n "$package" ] || die "apt knows no kernel for clouds: name one by KERNEL=FILE.deb"
    ls "$work/$package"_*.deb >/dev/null 2>&1 ||
        (cd "$work" && apt-get -q -o APT::Sandbox::User=root download "$package")
    kernel=$(ls "$work/$package"_*.deb)
fi
rm -rf "$work/kernel" "$work/root"
dpkg-deb -x "$kernel" "$work/kernel"

# What is in memory when the kernel starts its first process.
root=$work/root
mkdir -p "$root/bin" "$root/modules" "$root/proc" "$root/sys" "$root/dev" "$root/data" "$root/tmp"
# Of the cipher modules those for this processor are faster; they need not be there.
for name in tls gf128mul ghash-generic gcm ctr seqiv ccm cmac cryptd crypto_simd aesni-intel \
    ghash-clmulni-intel libpoly1305 libchacha chacha_generic chacha-x86_64 poly1305_generic \
    poly1305-x86_64 chacha20poly1305; do
    find "$work/kernel" -name "$name.ko" -exec cp {} "$root/modules/" \;
done
[ -f "$root/modules/tls.ko" ] || die "$kernel has no module tls.ko"
cp "$test" "$work/tls-test"
for program in "$target/debug/headlong" "$work/tls-test" "$(command -v curl)" \
    "$(command -v openssl)" "$(command -v bash)" "$(command -v flock)"; do
    cp "$program" "$root/bin/"
    ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -Lu "$library" "$root$library"
    done
done
strip "$root/bin/headlong" "$root/bin/tls-test" 2>/dev/null || true
cp "$(command -v busybox)" "$root/bin/busybox"
cp scripts/ktls_inside.sh "$root/init"
chmod +x "$root/init"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -keyout "$root/key.pem" -out "$root/chain.pem" 2>/dev/null
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initrd.gz"

processor=max
[ "${ACCEL:-tcg}" = tcg ] || processor=host
said=$work/said.log
# It ends by itself, or with the time.
timeout "${SECONDS_MAX:-900}" qemu-system-x86_64 -accel "${ACCEL:-tcg}" -cpu "$processor" \
    -m 3072 -smp 2 -nographic -no-reboot -nic none -kernel "$work"/kernel/boot/vmlinuz-* \
    -initrd "$work/initrd.gz" -append "console=ttyS0 quiet panic=-1" </dev/null 2>&1 |
    sed -u 's/\r//g' | tee "$said" | grep --line-buffered '^ktls:' || true
grep -q '^ktls: all is well$' "$said" || die "it failed; what the machine said is in $said"

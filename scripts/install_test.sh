#!/bin/sh
# Installs the server as its users do, from what `make image`, `make packages` and `make repo` make,
# and downloads a title. Needs root; not part of `make test`.
#
#   scripts/install_test.sh                # image arm64 repo
#   scripts/install_test.sh image          # one of them
#   BIN_DIR=target/debug scripts/install_test.sh image repo    # of existing programs
#
# Stores, keys, roots and ports are separate from those of the machine, and are removed.
set -eu
self=$(realpath "$0")
cd "$(dirname "$self")/.."

say() { echo "install: $*"; }
fail() {
    say "FAILED: $*" >&2
    exit 1
}
[ "$(id -u)" -eq 0 ] || fail "only root can start containers and make roots here; use sudo"
. scripts/arch.sh

work=$(realpath "$(mktemp -d)")
server=
pod() { podman --log-level error --root "$work/store" --runroot "$work/run" --storage-driver vfs --cgroup-manager cgroupfs "$@"; }
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ ! -d "$work/store" ] || pod rm --all --force --time 1 >/dev/null 2>&1 || true
    rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

titles=$work/titles
mkdir -p "$titles/films"
dd if=/dev/urandom of="$titles/films/a.mp4" bs=1M count=24 status=none
chmod -R a+rX "$titles" "$work"

# is_served ADDRESS ADMIN
is_served() {
    tries=300
    until curl -sf -o /dev/null "http://$2/healthz"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.1
    done
    curl -sf -o "$work/got" "http://$1/films/a.mp4" && cmp "$work/got" "$titles/films/a.mp4"
}

check_image() {
    need podman "podman crun netavark iptables"
    need jq jq
    OUT_DIR=$work scripts/image.sh
    # A network of its own: its bridge and its rules end with it.
    unshare --net --mount "$self" run_image "$work/headlong-$version-$ARCH.tar"
}

run_image() {
    ip link set lo up
    # crun refuses control groups of both versions side by side.
    [ ! -d /sys/fs/cgroup/unified ] || umount /sys/fs/cgroup/unified
    pod load --quiet --input "$1" >/dev/null
    image=localhost/headlong:$version
    ! pod run --rm --entrypoint /bin/sh "$image" -c true 2>/dev/null || fail "the image has a shell"
    for profile in default open; do
        # Limits that a machine without CAP_SYS_RESOURCE grants, too.
        set -- --name "$profile" --ulimit "nofile=$(ulimit -Hn)" --ulimit nproc=4096 --read-only --memory 2g -v "$titles:/srv/videos:ro" -v state:/var/lib/headlong \
            -p 127.0.0.1::8080 -p 127.0.0.1::8081 --health-cmd 'CMD headlong health' --health-interval disable
        if [ $profile = open ]; then
            jq '.syscalls += [{names: ["io_uring_setup", "io_uring_enter", "io_uring_register"],
                action: "SCMP_ACT_ALLOW"}]' /usr/share/containers/seccomp.json >"$work/seccomp.json"
            set -- "$@" --security-opt "seccomp=$work/seccomp.json"
        fi
        pod run --detach "$@" "$image" >/dev/null
        at=$(pod port $profile 8080)
        is_served "$at" "$(pod port $profile 8081)" || fail "no title: $(pod logs $profile 2>&1)"
        pod healthcheck run $profile >/dev/null || fail "the health command fails"
        [ "$(pod top $profile user | tail -n 1)" = headlong ] || fail "the user is not headlong"
        # A reply in progress ends before the server does.
        curl -sf --limit-rate 8M -o "$work/slow" "http://$at/films/a.mp4" &
        viewer=$!
        until [ -s "$work/slow" ]; do sleep 0.1; done
        pod stop --time 45 $profile >/dev/null
        wait $viewer || fail "the reply was aborted"
        cmp "$work/slow" "$titles/films/a.mp4"
        rm "$work/slow"
        [ "$(pod inspect --format '{{.State.ExitCode}}' $profile)" = 0 ] || fail "SIGTERM is not a clean end"
        pod logs $profile >"$work/log" 2>&1
    done
    pod logs default 2>&1 | grep -q "io_uring refused" || fail "io_uring was not refused, or not logged"
    ! pod logs open 2>&1 | grep "io_uring refused" || fail "io_uring was refused with the profile that allows it"
    [ -n "$(ls "$(pod volume inspect --format '{{.Mountpoint}}' state)")" ] || fail "no state was saved"
    say "image: passed"
}

# The program of the arm64 image on the image's files, under an emulator of its processor.
check_arm64() {
    emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
    # Versions before 9.1 lack a system call that opens files safely.
    if ! grep -qs openat2 "$emulator"; then
        emulator=${CARGO_TARGET_DIR:-target}/tools/qemu-aarch64-static
        [ -x "$emulator" ] || {
            mmdebstrap --variant=extract --include=qemu-user-static bookworm-backports "$work/qemu" 2>"$work/log" ||
                fail "no emulator: $(cat "$work/log")"
            install -D "$work/qemu/usr/bin/qemu-aarch64-static" "$emulator"
        }
    fi
    ARCH=arm64 BIN_DIR=${ARM64_BIN_DIR:-} OUT_DIR=$work scripts/image.sh
    mkdir "$work/oci" "$work/arm64"
    tar -xf "$work/headlong-$version-arm64.tar" -C "$work/oci"
    manifest=$(jq -r '.manifests[0].digest' "$work/oci/index.json")
    for layer in $(jq -r '.layers[].digest' "$work/oci/blobs/sha256/${manifest#sha256:}"); do
        tar -xzf "$work/oci/blobs/sha256/${layer#sha256:}" -C "$work/arm64"
    done
    readelf -h "$work/arm64/usr/bin/headlong" | grep -q AArch64 || fail "the program is not of arm64"
    unshare --net "$self" run_arm64 "$emulator" "$work/arm64"
}

run_arm64() {
    ip link set lo up
    "$1" -L "$2" "$2/usr/bin/headlong" serve "$titles" --process-memory 1GiB >"$work/log" 2>&1 &
    server=$!
    is_served 127.0.0.1:8080 127.0.0.1:8081 || fail "no title: $(cat "$work/log")"
    kill -TERM $server
    wait $server || fail "SIGTERM is not a clean end: $(cat "$work/log")"
    server=
    say "arm64: passed"
}

check_repo() {
    need mmdebstrap mmdebstrap
    GNUPGHOME=$work/gnupg
    export GNUPGHOME
    mkdir -m 700 "$GNUPGHOME"
    for name in right wrong; do
        gpg --batch --quiet --passphrase '' --quick-generate-key "$name <$name@localhost>" ed25519 sign 0
        gpg --export "$name" >"$work/$name.gpg"
    done
    OUT_DIR=$work/packages FORMATS=deb scripts/packages.sh
    KEY=right OUT_DIR=$work/repo scripts/repo.sh "$work"/packages/*.deb
    chmod -R a+rX "$work/repo"
    # apt in a clean root
    for key in wrong right; do
        status=0
        line="deb [signed-by=$work/$key.gpg] copy:$work/repo stable main"
        mmdebstrap --variant=apt --include=headlong "${SUITE:-bookworm}" "$work/$key" \
            --setup-hook="echo '$line' >\"\$1/etc/apt/sources.list.d/headlong.list\"" >"$work/log" 2>&1 || status=$?
        [ $key = wrong ] || [ $status -eq 0 ] || fail "apt: $(cat "$work/log")"
        [ $key = right ] || grep -q NO_PUBKEY "$work/log" || fail "apt did not miss the key: $(cat "$work/log")"
    done
    chroot "$work/right" headlong --version | grep -q "^headlong $version " || fail "the program does not start"
    say "repo: passed"
}

case ${1:-} in
run_*)
    "$@"
    exit
    ;;
esac
[ $# -gt 0 ] || set -- image arm64 repo
for check in "$@"; do
    "check_$check"
done

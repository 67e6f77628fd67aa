#!/bin/sh
# Tests the deb package under a real systemd: boots Debian 12 in separate namespaces, with
# systemd as process 1, and performs an operator's tasks there. Needs root; not part of `make test`.
#
#   scripts/systemd.sh                        # builds the package (make packages)
#   PACKAGE=FILE.deb scripts/systemd.sh
#   BOOT_ROOT=DIR                             # the Debian root; created by debootstrap if missing
#   CHECKS="reload upgrade"                   # a selection of those in scripts/systemd_inside.sh
#
# The root is never written to: an overlay in memory covers it. Mounts, binds and listeners are
# invisible outside, and end with the machine, however this script ends.
set -eu
self=$(realpath "$0")
cd "$(dirname "$self")/.."

die() {
    echo "systemd: $*" >&2
    exit 1
}

hierarchies="/sys/fs/cgroup/*/"
[ ! -e /sys/fs/cgroup/cgroup.controllers ] || hierarchies=/sys/fs/cgroup/

# Control groups of its own, which the machine sees as the top level.
if [ "${1:-}" = --enter ]; then
    group=$2
    for hierarchy in $hierarchies; do
        mkdir "$hierarchy$group"
        case $hierarchy in
        */cpuset/)
            for file in cpuset.cpus cpuset.mems; do
                cat "$hierarchy$file" >"$hierarchy$group/$file"
            done
            ;;
        esac
        echo $$ >"$hierarchy$group/cgroup.procs"
    done
    # The machine ends with unshare, and unshare with the script, even after kill -9.
    exec setpriv --pdeathsig KILL unshare --mount --uts --ipc --net --pid --cgroup --fork --kill-child \
        "$self" --boot "$3" "$4" "$5"
fi

# Inside the namespaces: mounts the file systems of a machine, and becomes process 1.
if [ "${1:-}" = --boot ]; then
    lower=$2
    over=$3
    titles=$4
    mount --make-rprivate /
    mount -t tmpfs -o size=3g,mode=755 tmpfs "$over"
    mkdir "$over/upper" "$over/work" "$over/root"
    root=$over/root
    mount -t overlay -o "lowerdir=$lower,upperdir=$over/upper,workdir=$over/work" overlay "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    groups=$root/sys/fs/cgroup
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        mount -t cgroup2 cgroup2 "$groups"
    else
        mount -t tmpfs -o mode=755 tmpfs "$groups"
        for hierarchy in /sys/fs/cgroup/*/; do
            name=$(basename "$hierarchy")
            mkdir "$groups/$name"
            case $name in
            unified) mount -t cgroup2 cgroup2 "$groups/$name" ;;
            systemd) mount -t cgroup -o none,name=systemd cgroup "$groups/$name" ;;
            *) mount -t cgroup -o "$name" cgroup "$groups/$name" ;;
            esac
        done
    fi
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0" "fuse 10 229"; do
        # shellcheck disable=SC2086 # a name and two numbers
        set -- $node
        mknod -m 666 "$root/dev/$1" c "$2" "$3"
    done
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    mknod -m 600 "$root/dev/console" c 1 3
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    # In an overlay a file is on another device than its folder, which the server refuses. Titles
    # are on a disk: nothing could be read ahead from a file system in memory.
    mount --bind "$titles" "$root/srv"
    for folder in home mnt; do mount -t tmpfs -o size=512m,mode=755 tmpfs "$root/$folder"; done
    mkdir "$root/clean"
    cp "$PACKAGE" "$root/clean/headlong.deb"
    cp scripts/systemd_inside.sh "$root/clean/"
    ln -sf /dev/null "$root/etc/systemd/system/console-getty.service"
    rm -f "$root/etc/systemd/system/multi-user.target.wants/nginx.service"
    cd "$root"
    mkdir -p .old
    pivot_root . .old
    umount -l /.old
    exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --show-status=0 </dev/null >/dev/null 2>&1
fi

[ "$(id -u)" -eq 0 ] || die "only root can boot a machine; use sudo"
for program in debootstrap unshare setpriv nsenter pgrep; do
    command -v "$program" >/dev/null || die "$program is missing: apt install debootstrap procps"
done

package=${PACKAGE:-}
if [ -z "$package" ]; then
    FORMATS=deb scripts/packages.sh
    package=$(ls -t "${CARGO_TARGET_DIR:-target}"/packages/headlong_*.deb | head -n 1)
fi
PACKAGE=$(realpath "$package")
export PACKAGE

root=${BOOT_ROOT:-${CARGO_TARGET_DIR:-target}/systemd/root}
if [ ! -d "$root" ]; then
    echo "systemd: creating a Debian root in $root"
    rm -rf --one-file-system "$root.new"
    mkdir -p "$root.new"
    timeout 1200 debootstrap --variant=minbase \
        --include=systemd,systemd-sysv,dbus,procps,curl,openssl,logrotate,man-db,nginx-light,ssl-cert \
        bookworm "$root.new" >"$root.log" 2>&1 || die "debootstrap fails: $root.log"
    mv "$root.new" "$root"
fi
root=$(realpath "$root")

# take_away PROCESS: removes leftovers of the script that was this process.
take_away() {
    for hierarchy in $hierarchies; do
        # From the innermost group; one whose processes are just ending needs another attempt.
        for _ in $(seq 50); do
            [ -d "${hierarchy}headlong-trial-$1" ] || break
            find "${hierarchy}headlong-trial-$1" -depth -type d -exec rmdir {} + 2>/dev/null ||
                sleep 0.1
        done
    done
    rm -rf "$root.trial-$1"
}
# Killed scripts could not clean up.
for left in "$root".trial-*; do
    [ -d "/proc/${left##*-}" ] || [ ! -d "$left" ] || take_away "${left##*-}"
done

group=headlong-trial-$$
over=$root.trial-$$/over
titles=$root.trial-$$/titles
mkdir -p "$over" "$titles"
machine=

clean_up() {
    [ -z "$machine" ] || kill -KILL "$machine" 2>/dev/null || true
    [ -z "$machine" ] || wait "$machine" 2>/dev/null || true
    take_away $$
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

"$self" --enter "$group" "$root" "$over" "$titles" &
machine=$!

first=
for _ in $(seq 300); do
    first=$(pgrep -P "$machine" || true)
    [ -z "$first" ] || ! grep -qs '^systemd$' "/proc/$first/comm" || break
    kill -0 "$machine" 2>/dev/null || die "the machine does not boot"
    sleep 0.1
done
[ -n "$first" ] || die "the machine does not boot"

timeout 900 nsenter -t "$first" -m -u -i -n -p -C -r -w env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    bash /clean/systemd_inside.sh ${CHECKS:-}

#!/bin/sh
# Installs what is missing on a Debian machine, and nothing else. Cargo is expected to be there.
#
#   scripts/setup.sh [run|test|bench|hot]
#
# The default is test; bench is for `headlong bench`, hot for `make bench-hot`.
#
# apt-get is called only if a command is missing, through sudo unless root calls.
set -eu

purpose=${1:-test}
# File systems and daemons are in folders that not every user has in the path.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# command:package
run="ffmpeg:ffmpeg node:nodejs npm:npm gcc:gcc pkg-config:pkg-config curl:curl"
test="chromium:chromium fusermount3:fuse3 mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs
    nginx:nginx-light apache2:apache2 haproxy:haproxy ip:iproute2 f2py3:python3-numpy
    traffic_server:trafficserver varnishd:varnish
    rsync:rsync git:git sqlite3:sqlite3 strace:strace
    promtool:prometheus lintian:lintian dpkg-shlibdeps:dpkg-dev man:man-db systemd-sysusers:systemd"
bench="fusermount3:fuse3 mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs ip:iproute2 nginx:nginx-light
    apache2:apache2 haproxy:haproxy traffic_server:trafficserver varnishd:varnish"
hot="nginx:nginx-light h2load:nghttp2-client ip:iproute2 unshare:util-linux openssl:openssl
    python3:python3"
case $purpose in
run) needed=$run ;;
test) needed="$run $test" ;;
bench) needed="$run $bench" ;;
hot) needed=$hot ;;
*)
    echo "setup: $purpose is unknown; write run, test, bench or hot" >&2
    exit 64
    ;;
esac

missing=
for pair in $needed; do
    command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
done

if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null; then
        echo "setup: this is not Debian; install by your own means what these provide:$missing" >&2
        exit 1
    fi
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        as_root=sudo
        command -v sudo >/dev/null || {
            echo "setup: as root, run: apt-get install$missing" >&2
            exit 1
        }
        # Nobody is there to type a password.
        [ "${CI:-}" != true ] || as_root="sudo -n"
    fi
    echo "setup: installing$missing"
    # Tests and benchmarks start what they need themselves: a package must not start a service of its own.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap '$as_root rm -f "$policy"' EXIT
        trap 'exit 1' HUP INT TERM
        printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
        $as_root chmod 755 "$policy"
    fi
    $as_root apt-get update -qq || echo "setup: the lists of packages are old; going on with them" >&2
    # shellcheck disable=SC2086 # the packages are words
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

command -v cargo >/dev/null || {
    echo "setup: cargo is missing; https://rustup.rs says how to install it" >&2
    exit 1
}
# The web pages' tools need this; Debian 12 has an older one of its own.
[ "$purpose" = hot ] || node -e 'const [a, b] = process.versions.node.split(".").map(Number);
    process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' || {
    echo "setup: node is $(node --version), at least v20.19 is needed; https://nodejs.org has it" >&2
    exit 1
}

#!/bin/sh
# Installs missing packages on a Debian machine, and nothing else. Cargo must be installed.
#
#   scripts/setup.sh [run|test|bench|hot]
#
# The default is test; bench is for `headlong bench`, hot for `make bench-hot`.
#
# apt-get is called only if a command is missing, through sudo unless called by root.
set -eu

purpose=${1:-test}
# Not every user has the folders of file system tools and daemons in PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# command:package
run="ffmpeg:ffmpeg node:nodejs npm:npm gcc:gcc pkg-config:pkg-config curl:curl"
test="chromium:chromium fusermount3:fuse3 mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs
    nginx:nginx-light apache2:apache2 haproxy:haproxy ip:iproute2 f2py3:python3-numpy
    traffic_server:trafficserver varnishd:varnish
    mount.davfs:davfs2 vlc:vlc-bin cvlc:vlc-plugin-base unshare:util-linux
    certbot:certbot rsync:rsync wget:wget rclone:rclone git:git sqlite3:sqlite3 strace:strace
    promtool:prometheus openssl:openssl lintian:lintian rpm:rpm pip3:python3-pip man:man-db systemd-sysusers:systemd
    Rscript:r-cran-ggplot2 Rscript:r-cran-bit64"
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
    echo "setup: $purpose is unknown; use run, test, bench or hot" >&2
    exit 64
    ;;
esac

missing=
for pair in $needed; do
    command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
done

if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null; then
        echo "setup: this is not Debian; install the equivalents of these packages:$missing" >&2
        exit 1
    fi
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        as_root=sudo
        command -v sudo >/dev/null || {
            echo "setup: as root, run: apt-get install$missing" >&2
            exit 1
        }
        # There is no terminal for a password.
        [ "${CI:-}" != true ] || as_root="sudo -n"
    fi
    echo "setup: installing$missing"
    # Tests and benchmarks start their own processes: a package must not start a service.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap '$as_root rm -f "$policy"' EXIT
        trap 'exit 1' HUP INT TERM
        printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
        $as_root chmod 755 "$policy"
    fi
    $as_root apt-get update -qq || echo "setup: cannot update the package lists; continuing with the old ones" >&2
    # shellcheck disable=SC2086 # the packages are words
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

command -v cargo >/dev/null || {
    echo "setup: cargo is missing; see https://rustup.rs" >&2
    exit 1
}
# The tools of the web pages need this version; Debian 12 has an older one.
[ "$purpose" = hot ] || node -e 'const [a, b] = process.versions.node.split(".").map(Number);
    process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' || {
    echo "setup: node is $(node --version), v20.19 or later is needed; see https://nodejs.org" >&2
    exit 1
}

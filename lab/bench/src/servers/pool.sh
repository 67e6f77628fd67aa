# Provides a ZFS pool on a block device while it runs, by zfs-fuse. On SIGTERM it exports the pool,
# so that the next run imports it unchanged and with nothing of it in memory.
#
# Arguments: `create` or `import`; the device; an SSD for its cache, or an empty string; the folder
# in which `mounted` appears; size limit of zfs-fuse's own cache in MiB.
mode=$1 device=$2 ssd=$3 folder=$4 arc=$5
pool=headlong-bench

# Exports the pool and exits with this code. The daemon ignores SIGTERM while it has a pool.
end() {
    trap '' TERM INT
    [ -z "$ssd" ] || zpool remove "$pool" "$ssd"
    zpool export "$pool" || zpool export -f "$pool"
    kill -KILL "$daemon" 2> /dev/null
    wait "$daemon"
    exit "$1"
}

fail() {
    echo "$1" >&2
    end 1
}

mkdir -p "$folder/devices"
ln -sf "$device" "$folder/devices/"
# Attributes are cached as a kernel file system would; the block devices bypass the page cache, so
# that nothing is cached twice.
zfs-fuse --no-daemon --no-kstat-mount --disable-block-cache --max-arc-size "$arc" \
    --fuse-attr-timeout 3600 --fuse-entry-timeout 3600 --pidfile "$folder/zfs-fuse.pid" &
daemon=$!
round=0
until zpool list > /dev/null 2>&1; do
    kill -0 "$daemon" 2> /dev/null || fail "zfs-fuse has ended; does another one run?"
    [ "$round" -lt 200 ] || fail "zfs-fuse does not answer"
    sleep 0.1
    round=$((round + 1))
done
trap "end 0" TERM INT
if [ "$mode" = create ]; then
    # No access times: third-party caches write none either.
    zpool create -f -O atime=off -R "$folder" -m /mounted "$pool" "$device" || fail "no pool"
else
    zpool import -f -d "$folder/devices" -R "$folder" "$pool" || fail "the pool is not there"
fi
# Cache devices left by an interrupted run.
for left in $(zpool status "$pool" | awk '$1 == "cache" { found = 1; next } found && NF > 1 { print $1 }'); do
    case $left in errors:) ;; *) zpool remove "$pool" "/dev/$left" ;; esac
done
[ -z "$ssd" ] || zpool add -f "$pool" cache "$ssd" || fail "no cache for the pool"
wait "$daemon"

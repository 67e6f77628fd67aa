#!/bin/busybox sh
# The first process of the machine that scripts/ktls.sh boots: replies whose records the kernel
# makes, read by others' clients. Prints a line for each check, and ends with the first that fails.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/data TMPDIR=/data
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs data /data
ip link set lo up

at=https://127.0.0.1:8443
say() { echo "ktls: $*"; }
fail() {
    say "FAILED: $*"
    tail -n 40 /data/server.log
    dmesg | tail -n 20
    poweroff -f
}
kernel_count() { sed -n "s/^$1[^0-9]*//p" /proc/net/tls_stat; }
get() { curl -sSk -m 240 "$@"; }
server_count() {
    wget -qO- http://127.0.0.1:8080/metrics | sed -n "s/^headlong_$1_total //p"
}

# Behind what the firmware left on the line.
echo
say "Linux $(uname -r)"
# Each needs others, in an order that nobody has written down.
for _ in 1 2 3 4; do
    for module in /modules/*.ko; do insmod "$module" 2>/dev/null; done
done
[ -f /proc/net/tls_stat ] || fail "the kernel has no TLS"

say "the tests of this repository"
HEADLONG_BIN=/bin/headlong tls-test --test-threads=1 --nocapture replies_are_right ranges_over_tls \
    sixty_ranges one_server_serves_both >/data/test.log 2>&1
code=$?
cat /data/test.log
[ $code = 0 ] || fail "they end with $code"
grep -q 'by the kernel: true' /data/test.log || fail "the kernel was not found"

mkdir /data/titles
head -c 3000000 /dev/urandom >/data/titles/a.mp4
head -c 30000 /dev/urandom >/data/titles/b.mp4
cat >/data/headlong.toml <<END
roots = ["/data/titles"]
listen = ["127.0.0.1:8443"]
admin = "127.0.0.1:8080"
memory = "256MiB"
[tls]
certificate = "/chain.pem"
key = "/key.pem"
kernel = "auto"
# An emulated processor that has to wait for a real one is slow at times.
[limits]
header_timeout = "240s"
send_timeout = "240s"
END
headlong serve --config /data/headlong.toml >/data/server.log 2>&1 &
server=$!
for _ in $(seq 60); do
    get -o /dev/null $at/b.mp4 && break
    sleep 1
done
grep -q kTLS /data/server.log || fail "the server does not use what the kernel has"

# same NAME OPTION...: two titles on one connection, several times, so that copies are sent, too.
same() {
    name=$1
    shift
    before=$(server_count kernel_tls_connections)
    for _ in 1 2; do
        get --http1.1 "$@" -o /data/a $at/a.mp4 -o /data/b $at/b.mp4 ||
            fail "$name: curl ends with $?"
        cmp /data/a /data/titles/a.mp4 || fail "$name: wrong bytes"
        cmp /data/b /data/titles/b.mp4 || fail "$name: wrong bytes"
        get --http1.1 "$@" -r 1000000-1999999 -o /data/a $at/a.mp4 ||
            fail "$name: curl ends with $?"
        tail -c +1000001 /data/titles/a.mp4 | head -c 1000000 | cmp - /data/a ||
            fail "$name: wrong range"
    done
    [ $(($(server_count kernel_tls_connections) - before)) = 4 ] || fail "$name: not by the kernel"
    say "$name"
}
for cipher in TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256; do
    same "TLS 1.3 $cipher" --tlsv1.3 --tls13-ciphers $cipher
done
for cipher in ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384 \
    ECDHE-ECDSA-CHACHA20-POLY1305; do
    same "TLS 1.2 $cipher" --tls-max 1.2 --ciphers $cipher
done

before=$(server_count kernel_tls_connections)
get --http2 -o /data/a $at/a.mp4 || fail "HTTP/2: curl ends with $?"
cmp /data/a /data/titles/a.mp4 || fail "HTTP/2: wrong bytes"
[ "$(server_count kernel_tls_connections)" = "$before" ] || fail "HTTP/2 went to the kernel"
say "HTTP/2 stays with the server"

request='GET /b.mp4 HTTP/1.1\r\nHost: a\r\n\r\n'
ask() { timeout 120 openssl s_client -connect 127.0.0.1:8443 "$@" >/data/told 2>/data/errors; }
# A line that is `k` changes the client's keys.
{ printf "$request" && sleep 3 && printf 'k\n' && sleep 8; } | ask -tls1_3 ||
    fail "a change of keys: openssl ends with $?"
grep -q KEYUPDATE /data/errors || fail "openssl changed no keys"
grep -aq '^closed$' /data/told || fail "a change of keys does not end the connection as it should"
say "a client that changes its keys has had its reply, and its connection is closed"

for version in -tls1_2 -tls1_3; do
    { printf 'GET /b.mp4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' && sleep 8; } |
        ask -quiet $version || fail "the end of a connection: openssl ends with $?"
    grep -q 'unexpected eof' /data/errors && fail "the end is not said ($version)"
    tail -c 30000 /data/told | cmp - /data/titles/b.mp4 ||
        fail "the last reply is not whole ($version)"
done
say "the end of a connection is said before it comes"

# Slow readers, whose replies wait in sockets while others are served.
for n in 1 2 3 4; do
    get --http1.1 --limit-rate 1M -o /data/slow$n $at/a.mp4 &
    readers="${readers:-} $!"
done
for _ in 1 2 3; do
    get --http1.1 -o /data/a $at/a.mp4 && cmp /data/a /data/titles/a.mp4 || fail "beside slow readers"
done
for reader in $readers; do wait "$reader" || fail "a slow reader ends with $?"; done
for n in 1 2 3 4; do
    cmp /data/slow$n /data/titles/a.mp4 || fail "a slow reader has wrong bytes"
done
say "slow readers have every byte"

get --http1.1 -H 'Connection: close' "$at/b.mp4?[1-40]" >/data/all || fail "forty handshakes"
[ "$(wc -c </data/all)" = 1200000 ] || fail "forty replies are not whole"
say "forty handshakes, one after another"

# The sessions whose records it made, by its own count.
[ "$(kernel_count TlsTxSw)" -ge "$(server_count kernel_tls_connections)" ] ||
    fail "the kernel counts fewer"
[ "$(kernel_count TlsDecryptError)" = 0 ] || fail "the kernel could not read something"
[ "$(server_count tls_failures)" = 0 ] || fail "handshakes failed"
say "$(server_count kernel_tls_connections) connections by the kernel, no mistake of either"
kill $server
wait $server || fail "the server ends with $?"
say "all is well"
poweroff -f

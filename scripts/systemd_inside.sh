#!/bin/sh
# An operator's tasks with the package, on the machine that scripts/systemd.sh boots. Prints a line
# for each check, and stops at the first failure.
#
#   systemd_inside.sh [CHECK...]    # install and start always come first
set -eu

package=/clean/headlong.deb
unit=headlong.service
drop_in=/etc/systemd/system/$unit.d/trial.conf
config=/etc/headlong/headlong.toml
titles=/srv/videos/films
at=http://127.0.0.1
export DEBIAN_FRONTEND=noninteractive SYSTEMD_PAGER='' MANPAGER=cat PAGER=cat

say() { echo "systemd: $*"; }
fail() {
    say "FAILED: $*" >&2
    journalctl --no-pager -o short-precise -n 40 -u 'headlong*' >&2 || true
    exit 1
}
property() { systemctl show --property="$1" --value "${2:-$unit}"; }
# try SECONDS COMMAND...: repeats a command until it succeeds
try() {
    until_second=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt $until_second ] || return 1
        sleep 0.1
    done
}
is_served() { curl -sf -m 2 -o /dev/null -r 0-9 "$at/${1:-films/1.bin}"; }
is_whole() { curl -sf -m 60 "$at/$1" | cmp -s - "$2"; }
was_said() { journalctl -o cat -u "$unit" | grep -qF -- "$1"; }
main_is_not() { [ "$(property MainPID)" != "$1" ] && [ "$(property MainPID)" != 0 ]; }
is_gone() { [ ! -d "/proc/$1" ]; }
set_up() {
    mkdir -p "${drop_in%/*}"
    { echo "[Service]" && printf '%s\n' "$@"; } >$drop_in
    systemctl daemon-reload
}
as_installed() {
    rm -f $drop_in
    cp /clean/headlong.toml $config
    systemctl daemon-reload
    systemctl reset-failed $unit 2>/dev/null || true
}
restart() { systemctl restart $unit 2>/clean/told || fail "$1: $(cat /clean/told)"; }
# refused WHAT TEXT: asserts a failed start with TEXT in the journal, and no restart
refused() {
    ! systemctl restart $unit 2>/dev/null || fail "it starts: $1"
    sleep 3
    [ "$(property ActiveState)" = failed ] || fail "systemd restarts it: $1"
    [ "$(property ExecMainStatus)" = 64 ] || fail "the exit code is not 64: $1"
    was_said "$2" || fail "the journal lacks '$2': $1"
}
# One slow viewer for each of the first titles; each writes a line at its end.
watch() {
    rm -rf /clean/seen && mkdir /clean/seen
    viewer=0
    while [ $viewer -lt "$1" ]; do
        title=$((viewer % 8 + 1))
        {
            curl -sSf --limit-rate "$2" -o /clean/seen/$viewer "$at/${3:-films}/$title.bin" \
                2>/clean/seen/$viewer.told &&
                cmp /clean/seen/$viewer $titles/$title.bin >/clean/seen/$viewer.told && echo whole ||
                echo "cut: $(cat /clean/seen/$viewer.told)"
        } >/clean/seen/$viewer.end 2>&1 &
        viewer=$((viewer + 1))
    done
    sleep 1.5
}
all_whole() {
    for end in $(seq 0 $(($1 - 1))); do
        try 90 test -s /clean/seen/"$end".end || fail "a viewer hangs: $2"
    done
    cut=$(cat /clean/seen/*.end | grep -v '^whole$' || true)
    [ -z "$cut" ] || fail "$2: $cut"
}

install_and_start() {
    dpkg -i $package >/clean/told 2>&1 || fail "dpkg -i: $(cat /clean/told)"
    [ "$(property ActiveState)" = inactive ] || fail "started before it was configured"
    mkdir -p $titles
    for title in 1 2 3 4 5 6 7 8; do head -c 8000000 /dev/urandom >$titles/$title.bin; done
    cp $config /clean/headlong.toml
    headlong check --config $config >/clean/told 2>&1 || fail "check: $(cat /clean/told)"
    systemctl enable --now $unit >/clean/told 2>&1 || fail "it does not start: $(cat /clean/told)"
    [ "$(property ActiveState)" = active ] || fail "it is not active"
    [ "$(stat -c %U "/proc/$(property MainPID)")" = headlong ] || fail "wrong user"
    property StatusText | grep -q '^serving at http://\[::\]:80; 8 files' || fail "no status"
    is_whole films/1.bin $titles/1.bin || fail "other bytes"
    curl -s $at:8081/metrics | grep -q 'io="io_uring, O_DIRECT"' || fail "it reads without io_uring"
    say "install, enable, start: serves with io_uring, and reports its status to systemd"
}

check_units() {
    systemd-analyze verify $unit headlong-reception.service headlong-mount@x.service \
        >/clean/told 2>&1 || fail "verify: $(cat /clean/told)"
    [ ! -s /clean/told ] || fail "verify: $(cat /clean/told)"
    for of in $unit:17 headlong-reception.service:13 headlong-mount@x.service:37; do
        score=$(systemd-analyze security --no-pager "${of%:*}" 2>/dev/null |
            sed -n 's/.*exposure level for .*: \([0-9.]*\) .*/\1/p')
        [ "$(echo "$score" | tr -d .)" -le "${of#*:}" ] || fail "${of%:*} is open: $score"
        # This option blocks openat2, which resolves paths below a folder.
        [ "$(property RestrictSUIDSGID "${of%:*}")" = no ] || fail "${of%:*} may not openat2"
        [ "$(property LimitCORE "${of%:*}")" = 0 ] || fail "${of%:*} may dump core"
        say "units: ${of%:*} has an exposure of $score"
    done
    man -w headlong headlong-serve >/dev/null || fail "no manual pages"
}

check_reload() {
    sed -i 's/^\[log\]/cache_control = "no-store"\n\n[log]/' $config
    systemctl reload $unit || fail "a good reload"
    stored() { curl -sI $at/films/1.bin | grep -qi '^cache-control: no-store'; }
    try 5 stored || fail "a valid reload changes nothing"
    sed -i 's/no-store/no-cache/; $a loud = 3' $config
    ! systemctl reload $unit 2>/dev/null || fail "an invalid reload reports success"
    stored || fail "an invalid reload changed something"
    journalctl -o cat -p err -u $unit | grep -q 'log.loud: unknown key' || fail "no line of level err"
    systemctl kill --signal=HUP --kill-who=main $unit
    told() { property StatusText | grep -q 'the new one has mistakes'; }
    try 5 told || fail "the status does not say that the file is wrong"
    systemctl is-active -q $unit && stored || fail "a wrong reload stopped it"
    refused "a wrong file" "log.loud: unknown key"
    as_installed
    restart "a right file"
    say "reload: a valid file is loaded; an invalid one fails, is in the journal as an error, and the" \
        "old settings stay; a start with it is not repeated"
}

check_crash() {
    before=$(property NRestarts)
    kill -KILL "$(property MainPID)"
    try 20 is_served || fail "no restart"
    [ "$(property NRestarts)" -eq $((before + 1)) ] || fail "not restarted by systemd"
    say "crash: restarted after kill -9"
}

check_watchdog() {
    set_up WatchdogSec=3
    restart "a watchdog"
    hung() { [ "$(property Result)" != success ] || [ "$(property NRestarts)" != 0 ]; }
    old=$(property MainPID)
    systemctl kill --signal=USR2 --kill-who=main $unit
    try 20 main_is_not "$old" || fail "no upgrade"
    ! try 10 hung || fail "a healthy server was killed"
    kill -STOP "$(property MainPID)"
    try 20 hung || fail "a hung server was not killed"
    try 20 is_served || fail "a hung server was not restarted"
    as_installed
    restart "no watchdog"
    say "watchdog: a hung server is restarted, a healthy one is not, also after an upgrade"
}

check_upgrade() {
    watch 50 400k
    for _ in 1 2; do
        old=$(property MainPID)
        dpkg -i $package >/clean/told 2>&1 || fail "dpkg -i: $(cat /clean/told)"
        main_is_not "$old" || fail "no process replaced it: $(cat /clean/told)"
        is_served || fail "no service after an upgrade"
    done
    all_whole 50 "an upgrade"
    try 10 is_gone "$old" || fail "the old process does not end"
    property StatusText | grep -q '^serving at' || fail "no status after an upgrade"
    say "upgrade: two of the package under 50 downloads, none fails; systemd follows"

    watch 8 200k
    old=$(property MainPID)
    systemctl kill --signal=USR2 --kill-who=main $unit
    try 20 main_is_not "$old" || fail "no upgrade"
    sleep 1
    began=$(date +%s)
    kill -KILL "$(property MainPID)"
    sleep 0.2
    # The old process's replies would take longer than its drain.
    try 20 is_served || fail "a crash after an upgrade: no service for 20 s"
    say "upgrade: a crash of the new process while the old one has replies: back after" \
        "$(($(date +%s) - began)) s"

    watch 8 2000k
    for _ in 1 2; do
        old=$(property MainPID)
        systemctl kill --signal=USR2 --kill-who=main $unit
        try 20 main_is_not "$old" || fail "no upgrade"
    done
    systemctl stop $unit
    all_whole 8 "a stop after upgrades"
    [ "$(property Result)" = success ] || fail "a stop after upgrades: $(property Result)"
    systemctl start $unit
    say "upgrade: a stop after two lets the replies of the oldest process end"
}

check_logs() {
    count() { cat /var/log/headlong/access.log* | grep -o 'bin?line=[0-9]*' | sort -u | wc -l; }
    (for line in $(seq 300); do curl -s -r 0-9 -o /dev/null "$at/films/1.bin?line=$line"; done) &
    asker=$!
    for _ in 1 2; do
        sleep 0.7
        logrotate -f /etc/logrotate.d/headlong || fail "logrotate"
        # Files of an earlier rotation would be compressed.
        gunzip -f /var/log/headlong/*.gz 2>/dev/null || true
    done
    wait $asker
    all_there() { [ "$(count)" -eq 300 ]; }
    try 10 all_there || fail "lines are lost: $(count) of 300"
    say "logs: two rotations while it serves lose no line"
}

check_places() {
    mkdir -p /home/ann/videos /mnt/disk /srv/late
    cp $titles/2.bin /home/ann/videos/home.bin
    cp $titles/3.bin /mnt/disk/mnt.bin
    sed -i 's#^roots.*#roots = ["/srv/videos", "/home/ann/videos", "/mnt/disk", "/srv/late"]#' $config
    restart "roots in /home and /mnt"
    is_whole home.bin $titles/2.bin && is_whole mnt.bin $titles/3.bin || fail "roots in /home and /mnt"
    openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=trial -days 2 -keyout /etc/ssl/private/trial.key \
        -out /etc/ssl/certs/trial.pem 2>/dev/null
    chown root:ssl-cert /etc/ssl/private/trial.key
    chmod 640 /etc/ssl/private/trial.key
    printf '\n[tls]\nlisten = ["0.0.0.0:443"]\n%s\n%s\n' 'certificate = "/etc/ssl/certs/trial.pem"' \
        'key = "/etc/ssl/private/trial.key"' >>$config
    refused "a key that it may not read" "trial.key cannot be read"
    set_up SupplementaryGroups=ssl-cert
    restart "a key of a group"
    curl -skf -o /dev/null https://127.0.0.1/films/1.bin || fail "no title over TLS"
    as_installed
    say "places: roots in /home and /mnt; a key of a group, with SupplementaryGroups="
}

check_flash() {
    mkdir -p /mnt/ssd
    headlong flash format /mnt/ssd/tier --size 128MiB --block 1MiB >/dev/null || fail "flash format"
    sed -i 's#^memory = .*#memory = "64MiB"\nflash = ["/mnt/ssd/tier"]#' $config
    refused "a tier of root's" "give the server's user read and write access"
    chown headlong: /mnt/ssd/tier
    refused "a tier on a place that is read-only for the unit" "ReadWritePaths="
    set_up ReadWritePaths=/mnt/ssd/tier
    restart "a tier"
    try 10 was_said "flash tier ready" || fail "the tier is not used"
    old=$(property MainPID)
    systemctl kill --signal=USR2 --kill-who=main $unit
    try 20 main_is_not "$old" || fail "no upgrade with a tier"
    taken() { [ "$(journalctl -o cat -u $unit | grep -c 'flash tier ready')" -ge 2 ]; }
    try 20 taken || fail "the upgrade does not transfer the tier"
    as_installed
    restart "no tier"
    say "flash: a tier in a file, with ReadWritePaths=, also after an upgrade"
}

check_edge() {
    rm -f /etc/nginx/sites-enabled/default
    echo 'server { listen 127.0.0.1:8090; root /srv/videos; }' >/etc/nginx/sites-enabled/origin
    systemctl restart nginx
    mkdir -p /mnt/edge && chown headlong: /mnt/edge
    printf '\n[pull."/vod/"]\norigin = "http://127.0.0.1:8090/"\nfolder = "/mnt/edge"\n%s\n%s\n' \
        'bytes_max = "200MiB"' 'free_bytes_min = "16MiB"' >>$config
    refused "an edge whose folder is read-only for the unit" "ReadWritePaths="
    set_up ReadWritePaths=/mnt/edge
    restart "an edge"
    is_whole vod/films/1.bin $titles/1.bin || fail "an edge sends wrong bytes"
    watch 8 200k vod/films
    old=$(property MainPID)
    systemctl kill --signal=USR2 --kill-who=main $unit
    try 20 main_is_not "$old" || fail "no upgrade of an edge"
    kill -KILL "$(property MainPID)"
    sleep 0.2
    try 20 is_served vod/films/1.bin || fail "no service of an edge after a crash"
    is_whole vod/films/2.bin $titles/2.bin || fail "an edge sends wrong bytes after a crash"
    as_installed
    restart "no edge"
    say "edge: before nginx, with ReadWritePaths=; a crash just after an upgrade"
}

check_memory() {
    if ! grep -q memory /proc/self/cgroup && ! grep -qs memory /sys/fs/cgroup/cgroup.controllers; then
        say "memory: skipped, as this machine has no control groups of memory"
        return
    fi
    set_up MemoryMax=512M
    refused "more memory than MemoryMax=" "the control group of this process"
    set_up MemoryMax=2G
    restart "MemoryMax=2G"
    is_whole films/1.bin $titles/1.bin || fail "MemoryMax=2G"
    as_installed
    say "memory: more than MemoryMax= is a mistake, and said"
}

check_socket() {
    systemctl stop $unit
    sed -i 's#^listen = .*#listen = ["0.0.0.0:80"]#' $config
    printf '[Socket]\nListenStream=0.0.0.0:80\n[Install]\nWantedBy=sockets.target\n' \
        >/etc/systemd/system/headlong.socket
    systemctl daemon-reload
    systemctl start headlong.socket
    is_whole films/1.bin $titles/1.bin || fail "no answer at the socket"
    systemctl is-active -q $unit || fail "the socket did not start it"
    kill -KILL "$(property MainPID)"
    curl -sf -m 20 -o /dev/null -r 0-9 $at/films/1.bin || fail "a connection during a crash is lost"
    systemctl stop headlong.socket $unit
    rm /etc/systemd/system/headlong.socket
    as_installed
    systemctl start $unit
    say "socket: systemd's socket starts it, and clients wait after a crash"
}

check_reception() {
    rm -f /etc/nginx/sites-enabled/default
    echo 'server { listen 127.0.0.1:8090; root /srv/videos; }' >/etc/nginx/sites-enabled/origin
    mkdir -p /etc/systemd/system/nginx.service.d
    printf '[Unit]\nAfter=headlong-reception.service\n[Service]\n%s\n' \
        Environment=LD_PRELOAD=/usr/lib/headlong/libheadlong.so \
        >/etc/systemd/system/nginx.service.d/headlong.conf
    systemctl daemon-reload
    systemctl enable -q --now headlong-reception.service || fail "the reception does not start"
    systemctl restart nginx || fail "nginx with the library"
    grep -q libheadlong.so "/proc/$(property MainPID nginx)/maps" || fail "nginx has no library"
    through_nginx() {
        # Data in the page cache is not requested from the reception.
        sync $titles/"$1".bin
        dd if=$titles/"$1".bin iflag=nocache count=0 status=none
        curl -sf -m 20 -o /clean/got $at:8090/films/"$1".bin && cmp -s /clean/got $titles/"$1".bin
    }
    through_nginx 1 || fail "nginx with the library sends wrong bytes"
    headlong reception --status | grep -q '"ready":[1-9]' || fail "the reception reads nothing"
    for _ in 1 2 3 4 5 6; do
        kill -KILL "$(property MainPID headlong-reception)"
        through_nginx 2 || fail "nginx without a reception"
        try 20 headlong reception --status >/dev/null 2>&1 || fail "the reception was not restarted"
    done
    systemctl restart nginx && through_nginx 3 || fail "a restart of nginx"
    systemctl stop headlong-reception nginx
    say "reception: nginx with the library; six times kill -9; a restart of nginx"
}

check_mount() {
    mount=headlong-mount@films.service
    mkdir -p /srv/fast
    printf 'directory = "/srv/videos"\nmount_point = "/srv/fast"\nmemory = "64MiB"\n' \
        >/etc/headlong/mount-films.toml
    same() { cmp -s /srv/fast/films/1.bin $titles/1.bin; }
    systemctl enable -q --now $mount || fail "a mount does not start"
    same || fail "a mount has wrong bytes"
    kill -KILL "$(property MainPID $mount)"
    try 20 same || fail "a mount was not restarted"
    systemctl restart $mount && same || fail "a mount is not restarted"
    systemctl stop $mount
    ! grep -q /srv/fast /proc/self/mounts || fail "a mount stays after its stop"
    systemctl start $mount && same || fail "a mount does not start again"
    say "mount: started, kill -9, restarted, stopped"
}

check_removal() {
    watch 8 2000k
    dpkg -r headlong >/clean/told 2>&1 || fail "dpkg -r: $(cat /clean/told)"
    all_whole 8 "a removal"
    ! is_served || fail "it serves after its removal"
    ! grep -q /srv/fast /proc/self/mounts || fail "a mount stays after the removal"
    dpkg -P headlong >/clean/told 2>&1 || fail "dpkg -P: $(cat /clean/told)"
    rm -rf /etc/headlong/mount-films.toml "${drop_in%/*}" /etc/systemd/system/nginx.service.d
    rmdir /etc/headlong 2>/dev/null || true
    left=$(find / -xdev -name '*headlong*' -not -path '/clean/*' -not -path '/proc/*' | head -n 5)
    [ -z "$left" ] || fail "purge leaves $left"
    failed=$(systemctl list-units --failed --plain --no-legend 'headlong*')
    [ -z "$failed" ] || fail "failed units are left: $failed"
    say "removal: replies in progress end, and a purge leaves nothing"
}

has_booted() { systemctl is-system-running 2>/dev/null | grep -Eq 'running|degraded'; }
try 60 has_booted || fail "the machine does not boot: $(systemctl list-jobs)"
failed=$(systemctl list-units --failed --plain --no-legend)
[ -z "$failed" ] || fail "the machine boots with failed units: $failed"
say "booted: $(systemctl --version | head -n 1)"
install_and_start
all="units reload crash watchdog upgrade logs places flash edge memory socket reception mount removal"
for check in ${*:-$all}; do "check_$check"; done
say "passed"

#!/bin/sh
# Installs a package in a clean root, runs the unit's command as the unit's user, downloads a file,
# then reinstalls and removes the package during replies. As root:
#
#   packaging/package/test.sh PACKAGE.deb|PACKAGE.rpm
#
# The root is this machine's below an overlay in memory that receives all writes, in separate
# namespaces: the test leaves no files and uses no port of this machine. systemd does not run in it;
# the stand-in for systemctl records its arguments and stops the server as the unit does.
set -eu

if [ "${1:-}" != --inside ]; then
    package=$(realpath "$1")
    exec unshare --mount --net --ipc --pid --fork --kill-child "$(realpath "$0")" --inside "$package"
fi
package=$2

say() { echo "test: $*"; }
fail() {
    say "FAILED: $*" >&2
    exit 1
}

if [ -z "${HEADLONG_IN_ROOT:-}" ]; then
    ip link set lo up
    over=$(mktemp -d)
    mount -t tmpfs -o size=1g tmpfs "$over"
    mkdir "$over/upper" "$over/work" "$over/root"
    root=$over/root
    mount -t overlay -o "lowerdir=/,upperdir=$over/upper,workdir=$over/work" overlay "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mkdir -p "$root/clean"
    file=/clean/package.${package##*.}
    cp "$package" "$root$file"
    cp "$0" "$root/clean/test.sh"
    HEADLONG_IN_ROOT=1
    export HEADLONG_IN_ROOT
    # Mounts end with the namespace; the folder is then empty.
    status=0
    timeout 300 chroot "$root" /clean/test.sh --inside "$file" || status=$?
    umount -R -l "$over" && rmdir "$over"
    exit $status
fi

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
mkdir -p /run/systemd/system
told=/clean/told
: >$told
cat >/usr/bin/systemctl <<'END'
#!/bin/sh
echo "$*" >>/clean/told
case $* in
"show --property=MainPID --value headlong.service")
    # The server notifies systemd of its main process; the stand-in parses the log message.
    sed -n 's/.*upgrade done: the new process serves now.*process=\([0-9]*\).*/\1/p' /clean/server |
        tail -n 1 >/clean/heir
    if [ -s /clean/heir ]; then cp /clean/heir /clean/pid; fi
    cat /clean/pid
    ;;
"kill --signal=USR2 --kill-who=main headlong.service") kill -USR2 "$(cat /clean/pid)" ;;
"disable --now headlong.service "*)
    pid=$(cat /clean/pid)
    kill -TERM "$pid"
    seconds=$(sed -n 's/^TimeoutStopSec=\([0-9]*\)s$/\1/p' /usr/lib/systemd/system/headlong.service)
    while [ -e "/proc/$pid/exe" ] && [ "$seconds" -gt 0 ]; do
        sleep 1
        seconds=$((seconds - 1))
    done
    kill -KILL "$pid" 2>/dev/null || true
    ;;
esac
END
chmod 755 /usr/bin/systemctl

# put_in, is_as_packed, configuration, take_out
case $package in
*.deb)
    put_in() { DEBIAN_FRONTEND=noninteractive dpkg --force-confnew -i "$package"; }
    is_as_packed() { ! dpkg --verify headlong | grep .; }
    configuration() { dpkg-query -W -f '${Conffiles}\n' headlong; }
    take_out() { dpkg -r headlong; }
    ;;
*.rpm)
    # rpm does not know the packages of this machine.
    put_in() { rpm -U --force-debian --replacepkgs --nodeps "$package"; }
    is_as_packed() { rpm -V --nodeps headlong; }
    configuration() { rpm -qc headlong; }
    # rpm leaves a changed configuration, under another name.
    take_out() { echo "# changed" >>/etc/headlong/headlong.toml && rpm -e --force-debian headlong; }
    ;;
esac

say "install ${package##*.}"
rm -rf /etc/headlong
put_in >/clean/log 2>&1 || fail "installation: $(cat /clean/log)"
! grep -E 'start|enable' $told || fail "a service was started before it was configured"
getent passwd headlong >/dev/null || fail "the user was not created"
configuration | grep -q /etc/headlong/headlong.toml || fail "headlong.toml is not marked as configuration"
is_as_packed || fail "installed files differ from the package"
for page in headlong headlong-serve headlong-tune; do
    man --warnings -l "/usr/share/man/man1/$page.1.gz" >/clean/page 2>&1 || fail "man rejects the page $page"
    grep -q SYNOPSIS /clean/page || fail "the page $page has no SYNOPSIS"
done
man --warnings -l /usr/share/man/man5/headlong.toml.5.gz >/clean/page 2>/clean/warnings ||
    fail "man rejects the page headlong.toml"
[ ! -s /clean/warnings ] || fail "man warns about headlong.toml: $(cat /clean/warnings)"
grep -q memory_prefault /clean/page || fail "the page headlong.toml lacks settings"
bash -n /usr/share/bash-completion/completions/headlong || fail "bash rejects the completions"
headlong run -- true || fail "headlong run does not start a program"

say "check before the titles exist"
unit=/usr/lib/systemd/system/headlong.service
of_unit() { sed -n "s/^$1=//p" $unit; }
# The user and the single capability of the unit. The folders exist before its first start.
for folder in "/var/log/$(of_unit LogsDirectory)" "/var/lib/$(of_unit StateDirectory)"; do
    [ "$(stat -c %U "$folder")" = headlong ] || fail "$folder does not belong to the user"
done
as_unit() {
    capability=$(of_unit AmbientCapabilities | tr 'A-Z' 'a-z' | sed 's/^cap_//')
    # shellcheck disable=SC2086 # the command is split into words
    exec setpriv --reuid "$(of_unit User)" --regid "$(of_unit Group)" --clear-groups \
        --inh-caps "-all,+$capability" --ambient-caps "-all,+$capability" \
        --bounding-set "-all,+$capability" --no-new-privs $1
}
rm -rf /srv/videos
status=0
(as_unit "$(of_unit ExecStart)") >/clean/check 2>&1 || status=$?
# The disk may appear later: not the status in RestartPreventExitStatus.
[ $status -eq 2 ] || fail "exit status without titles is $status, not 2"
[ "$(wc -l </clean/check)" -eq 1 ] || fail "more errors than missing titles: $(cat /clean/check)"

say "serve"
mkdir -p /srv/videos
# Titles are on a separate file system: in an overlay, a file is on another device than its folder,
# and the server refuses it as mounted later.
mount -t tmpfs -o size=64m tmpfs /srv/videos
dd if=/dev/urandom of=/srv/videos/title.bin bs=1M count=24 status=none
# The first step of a reload.
(as_unit "$(of_unit ExecReload | head -n 1)") >/clean/check 2>&1 || fail "check: $(cat /clean/check)"
[ ! -s /clean/check ] || fail "check --quiet prints: $(cat /clean/check)"
# The limit of the unit, if permitted; without it, less memory is registered with io_uring.
ulimit -l unlimited 2>/dev/null || true
# In a subshell, so that it is not a child that this shell waits for.
(as_unit "$(of_unit ExecStart)") >/clean/server 2>&1 &
echo $! >/clean/pid
tries=300
until curl -sf -o /dev/null http://127.0.0.1:8081/healthz; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || fail "the server does not become ready: $(cat /clean/server)"
    sleep 0.1
done
[ "$(stat -c %U "/proc/$(cat /clean/pid)")" = headlong ] || fail "the server does not run as the user headlong"
curl -sfS -o /clean/got http://127.0.0.1/title.bin || fail "the title is not served: $(cat /clean/server /var/log/headlong/access.log)"
cmp /clean/got /srv/videos/title.bin || fail "the bytes differ"
[ -s /var/log/headlong/access.log ] || sleep 2
[ -s /var/log/headlong/access.log ] || fail "the access log is empty"

say "upgrade during a reply"
old=$(cat /clean/pid)
curl -sf --limit-rate 4M -o /clean/slow http://127.0.0.1/title.bin &
viewer=$!
put_in >/clean/log 2>&1 || fail "upgrade: $(cat /clean/log)"
[ "$(cat /clean/pid)" != "$old" ] || fail "no process took over: $(cat /clean/log /clean/server)"
curl -sfS -o /clean/got http://127.0.0.1/title.bin || fail "the title is not served: $(cat /clean/server)"
cmp /clean/got /srv/videos/title.bin || fail "the bytes differ"
wait $viewer || fail "the reply was aborted"
cmp /clean/slow /srv/videos/title.bin || fail "the bytes differ"
rm /clean/slow

say "removal during a reply"
# The reply completes within limits.drain_timeout.
curl -sf --limit-rate 8M -o /clean/slow http://127.0.0.1/title.bin &
viewer=$!
tries=100
until [ -s /clean/slow ]; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || fail "the reply does not start"
    sleep 0.1
done
take_out >/clean/log 2>&1 || fail "removal: $(cat /clean/log)"
wait $viewer || fail "the reply was aborted"
cmp /clean/slow /srv/videos/title.bin || fail "the bytes differ"
! curl -sf -o /dev/null http://127.0.0.1/title.bin || fail "the server still serves after the removal"
[ ! -e /usr/bin/headlong ] || fail "the program was not removed"
for left in /etc/headlong/headlong.toml*; do [ -e "$left" ] || fail "the removal deleted the configuration"; done
if [ "${package##*.}" = deb ]; then
    dpkg -P headlong >/clean/log 2>&1 || fail "dpkg -P: $(cat /clean/log)"
    for gone in /etc/headlong/headlong.toml /etc/logrotate.d/headlong /var/log/headlong; do
        [ ! -e $gone ] || fail "purge left $gone"
    done
fi
say "passed"

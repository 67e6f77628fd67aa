#!/bin/sh
# Builds the server and serves a library in the foreground; creates a sample library if there is
# none. Ctrl-C ends it.
#
#   LIBRARY=DIR        library folder             (default: sample)
#   LISTEN=ADDR:PORT   address of the videos        (default: 127.0.0.1:8080)
#   ADMIN=ADDR:PORT    address of the pages         (default: 127.0.0.1:8081)
set -eu
cd "$(dirname "$0")/.."

library=${LIBRARY:-sample}
listen=${LISTEN:-127.0.0.1:8080}
admin=${ADMIN:-127.0.0.1:8081}

# Whether a program listens at ADDR:PORT, or at all addresses.
is_taken() {
    command -v ss >/dev/null || return 1
    ss -Hltn "sport = :${1##*:}" 2>/dev/null | awk -v want="${1%:*}" '
        function is_all(host) { return host == "*" || host == "0.0.0.0" || host == "[::]" }
        { host = $4; sub(/:[0-9]+$/, "", host); sub(/%.*/, "", host) }
        host == want || is_all(host) || is_all(want) { found = 1 }
        END { exit !found }'
}

# Said before a build of minutes; in the end the server itself decides.
for pair in "LISTEN $listen" "ADMIN $admin"; do
    if is_taken "${pair#* }"; then
        port=${pair##*:}
        echo "run: port $port is taken (ss -ltnp 'sport = :$port' shows by which program)" >&2
        echo "run: stop that program, or name another address: make run ${pair%% *}=127.0.0.1:PORT" >&2
        exit 1
    fi
done

scripts/setup.sh run
# Without the internet cargo would retry for minutes.
fetch="cargo fetch --locked --target $(rustc -vV | sed -n 's/^host: //p')"
$fetch --offline --quiet 2>/dev/null || CARGO_HTTP_TIMEOUT=4 CARGO_NET_RETRY=0 $fetch || {
    echo "run: crates of Cargo.lock are missing, and the registry does not answer;" >&2
    echo "run: connect this machine, or copy ~/.cargo/registry from one that has built headlong" >&2
    exit 1
}
# The programs of `make build`: another set of packages would be compiled with other features.
make --no-print-directory build
[ -n "${LIBRARY:-}" ] || scripts/sample.sh "$library"
# Its logs are written there; see scripts/run.toml.
mkdir -p target

# A wildcard address cannot be opened in a browser.
page=$(echo "$admin" | sed -e 's/^0\.0\.0\.0:/127.0.0.1:/' -e 's/^\[::\]:/[::1]:/')

# The server says when it serves: an answer on that port could be another program's.
messages=$(mktemp -u -p target run.XXXXXX)
mkfifo "$messages"
{
    rm -f "$messages"
    while IFS= read -r line; do
        printf '%s\n' "$line" >&2
        case $line in
        *' serving addresses='*)
            printf '\n    Pick a title and watch it:  http://%s/\n    (Ctrl-C ends the server)\n\n' "$page"
            ;;
        *"cannot listen on"*)
            echo "run: name other addresses: make run LISTEN=127.0.0.1:PORT ADMIN=127.0.0.1:PORT" >&2
            ;;
        esac
    done
} <"$messages" &
exec "${CARGO_TARGET_DIR:-target}/release/headlong" serve "$library" \
    --config scripts/run.toml --listen "$listen" --admin "$admin" 2>"$messages"

#!/bin/sh
# Builds the server and serves a library in the foreground; makes a sample library if there is
# none. Ctrl-C ends it.
#
#   LIBRARY=DIR        what to serve                (default: sample)
#   LISTEN=ADDR:PORT   where the videos are         (default: 127.0.0.1:8080)
#   ADMIN=ADDR:PORT    where the pages are          (default: 127.0.0.1:8081)
set -eu
cd "$(dirname "$0")/.."

library=${LIBRARY:-sample}
listen=${LISTEN:-127.0.0.1:8080}
admin=${ADMIN:-127.0.0.1:8081}

scripts/setup.sh run
scripts/web.sh
cargo build --release --package headlong
[ -n "${LIBRARY:-}" ] || scripts/sample.sh "$library"
# Its logs go there; see scripts/run.toml.
mkdir -p target

# An address for all interfaces is not one to go to.
page=$(echo "$admin" | sed -e 's/^0\.0\.0\.0:/127.0.0.1:/' -e 's/^\[::\]:/[::1]:/')

# Says where the page is as soon as it answers; gives up with the server, or after a minute.
announce() {
    tries=0
    while [ "$tries" -lt 200 ] && kill -0 "$1" 2>/dev/null; do
        if curl --silent --fail --max-time 2 --output /dev/null "http://$page/"; then
            printf '\n    Pick a title and watch it:  http://%s/\n    (Ctrl-C ends the server)\n\n' "$page"
            return
        fi
        tries=$((tries + 1))
        sleep 0.3
    done
}

announce $$ &
exec "${CARGO_TARGET_DIR:-target}/release/headlong" serve "$library" \
    --config scripts/run.toml --listen "$listen" --admin "$admin"

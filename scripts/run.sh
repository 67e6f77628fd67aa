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

scripts/setup.sh run
# The programs of `make build`: another set of packages would be compiled with other features.
make --no-print-directory build
[ -n "${LIBRARY:-}" ] || scripts/sample.sh "$library"
# Its logs are written there; see scripts/run.toml.
mkdir -p target

# A wildcard address cannot be opened in a browser.
page=$(echo "$admin" | sed -e 's/^0\.0\.0\.0:/127.0.0.1:/' -e 's/^\[::\]:/[::1]:/')

# Prints the page's address as soon as it answers; gives up when the server ends, or after a minute.
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

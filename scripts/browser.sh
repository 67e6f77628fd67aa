#!/bin/sh
# Runs the browser tests of web/ against the real server with the sample library. scripts/test.sh
# calls it after all installations. CHROMIUM selects another browser than Debian's, HEADLONG_BIN
# another server than the one that it builds.
set -eu
cd "$(dirname "$0")/.."

[ -f web/package.json ] && grep -q '"test:browser"' web/package.json || {
    echo "browser: there are no browser tests in this tree"
    exit 0
}
if [ -z "${HEADLONG_BIN:-}" ]; then
    cargo build --package headlong
    HEADLONG_BIN=${CARGO_TARGET_DIR:-target}/debug/headlong
fi
scripts/sample.sh

CHROMIUM=${CHROMIUM:-$(command -v chromium)}
export CHROMIUM
free_port() {
    node -e 'const s = require("net").createServer();
        s.listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })'
}
listen=127.0.0.1:$(free_port)
admin=127.0.0.1:$(free_port)
HEADLONG_PAGE=http://$admin/
export HEADLONG_PAGE

log=$(mktemp)
config=$(mktemp)
echo 'package = "on"' >"$config"
"$HEADLONG_BIN" serve sample --config "$config" --memory 128MiB \
    --listen "$listen" --admin "$admin" >"$log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" || true; rm -f "$log" "$config"' EXIT
trap 'exit 1' HUP INT TERM

tries=0
until curl --silent --fail --max-time 2 --output /dev/null "$HEADLONG_PAGE"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 100 ] || ! kill -0 "$server" 2>/dev/null; then
        echo "browser: the server does not answer at $HEADLONG_PAGE; its output:" >&2
        cat "$log" >&2
        exit 1
    fi
    sleep 0.3
done
(cd web && npm run --silent test:browser) || {
    echo "browser: last output of the server:" >&2
    tail -n 40 "$log" >&2
    exit 1
}

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
    cargo build --package headlong --package headlong-lab
    HEADLONG_BIN=${CARGO_TARGET_DIR:-target}/debug/headlong
fi
scripts/sample.sh

# Titles that the server packages, in two sizes each: in one piece, and in fragments with and without
# an index of them.
packaged=$(mktemp -d)
for height in 90 180; do
    ffmpeg -nostdin -hide_banner -loglevel error -y -i sample/test-card.mp4 -t 30 \
        -vf scale=-2:$height -c:v libx264 -preset ultrafast -pix_fmt yuv420p \
        -g 50 -keyint_min 50 -sc_threshold 0 -c:a copy -movflags +faststart \
        "$packaged/whole_$height.mp4"
    fragments=+frag_keyframe+empty_moov+default_base_moof
    for form in with-index:$fragments without-index:$fragments+skip_trailer; do
        ffmpeg -nostdin -hide_banner -loglevel error -y -i "$packaged/whole_$height.mp4" -c copy \
            -movflags "${form#*:}" "$packaged/${form%%:*}_$height.mp4"
    done
done

CHROMIUM=${CHROMIUM:-$(command -v chromium)}
export CHROMIUM
free_port() {
    node -e 'const s = require("net").createServer();
        s.listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })'
}
listen=127.0.0.1:$(free_port)
admin=127.0.0.1:$(free_port)
second=127.0.0.1:$(free_port)
HEADLONG_PAGE=http://$admin/
export HEADLONG_PAGE

# Pages of the lab: a log, and an experiment with wide tables.
pages=$(mktemp -d)
lab=$(dirname "$HEADLONG_BIN")/headlong-lab
"$lab" workload generate netflix-2014-catalog --sessions 300 --log "$pages/log.csv" >"$pages/out" 2>&1
"$lab" trace characterise "$pages/log.csv" --html "$pages/log.html" >"$pages/out" 2>&1
"$lab" simulate youtube-sd --rate 5MiB/s --set phases.ramp_up=10s --set phases.measured=10s \
    --grid server.prefetch=1MiB,auto --report "$pages/grid.html" >"$pages/out" 2>&1
HEADLONG_LAB_PAGES="$pages/log.html $pages/grid.html"
export HEADLONG_LAB_PAGES

# Two servers with the same titles, between which players are steered.
log=$(mktemp)
configs=$(mktemp -d)
{
    echo 'title = "folder"'
    for box in "first=$listen" "second=$second"; do
        printf '[box.%s]\naddress = "%s"\nadmin = "%s"\nurl = "http://%s"\n' \
            "${box%%=*}" "${box#*=}" "$admin" "${box#*=}"
    done
} >"$configs/fleet.toml"
for box in first second; do
    printf 'package = "on"\n[steering]\nfleet = "fleet.toml"\nbox = "%s"\n' $box >"$configs/$box.toml"
done
"$HEADLONG_BIN" serve sample "$packaged" --config "$configs/first.toml" --memory 128MiB \
    --listen "$listen" --admin "$admin" >"$log" 2>&1 &
server=$!
"$HEADLONG_BIN" serve sample "$packaged" --config "$configs/second.toml" --memory 128MiB \
    --listen "$second" --admin off >>"$log" 2>&1 &
other=$!
trap 'kill "$server" "$other" 2>/dev/null || true; wait "$server" "$other" || true
    rm -rf "$log" "$configs" "$packaged" "$pages"' EXIT
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

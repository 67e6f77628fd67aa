#!/bin/sh
# Creates a small sample library, for users without a library of their own.
#
#   scripts/sample.sh [DIR]      (default: sample)
#
# One title of each kind: a plain MP4, HLS with fragmented MP4 in three renditions, HLS with
# transport stream, and DASH with a SegmentTemplate. A folder that is not empty is left unchanged.
# The library is created completely or not at all.
set -eu

library=${1:-sample}
if [ -n "$(ls -A "$library" 2>/dev/null)" ]; then
    echo "sample: $library exists already"
    exit 0
fi
command -v ffmpeg >/dev/null || {
    echo "sample: ffmpeg is missing; run scripts/setup.sh" >&2
    exit 1
}

mkdir -p "$(dirname "$library")"
# Absolute paths: ffmpeg resolves those in a manifest relative to its working folder.
library=$(cd "$(dirname "$library")" && pwd)/$(basename "$library")
work=$(mktemp -d "$library.making.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$work"

encode() {
    ffmpeg -nostdin -hide_banner -loglevel error -y "$@"
}

# Two seconds at 25 frames a second: every segment of every rendition starts with a key frame.
video="-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 50 -keyint_min 50 -sc_threshold 0"
audio="-c:a aac -ac 2 -ar 48000"

poster() { # FROM SECONDS TO
    # Decoded up to that point: seeking does not work in a playlist of fragments.
    encode -i "$1" -ss "$2" -frames:v 1 -vf scale=640:-2 -q:v 4 "$3"
    [ -s "$3" ] || {
        echo "sample: ffmpeg made no $3" >&2
        exit 1
    }
}

plain() {
    # shellcheck disable=SC2086 # the options are words
    encode -f lavfi -i testsrc2=s=640x360:r=25:d=60 -f lavfi -i sine=f=330:d=60 \
        $video -b:v 900k -maxrate 1200k -bufsize 1800k $audio -b:a 64k \
        -movflags +faststart "$work/test-card.mp4"
    poster "$work/test-card.mp4" 20 "$work/test-card.jpg"
}

hls_fmp4() {
    title="$work/northern-lights"
    mkdir -p "$title/240p" "$title/360p" "$title/720p"
    # shellcheck disable=SC2086
    encode -f lavfi -i "gradients=s=1280x720:r=25:d=60:n=4:c0=#052e3b:c1=#0fa37f:c2=#5b3a8c:c3=#0b1026:seed=7:speed=0.02" \
        -f lavfi -i "testsrc2=s=320x180:r=25:d=60" -f lavfi -i sine=f=220:b=4:d=60 \
        -filter_complex "[0][1]overlay=W-w-40:H-h-40,split=3[a][b][c];[a]scale=426:240[s];[b]scale=640:360[m];[c]null[l]" \
        -map "[s]" -map 2:a -map "[m]" -map 2:a -map "[l]" -map 2:a \
        $video -b:v:0 300k -maxrate:v:0 400k -bufsize:v:0 600k \
        -b:v:1 800k -maxrate:v:1 1000k -bufsize:v:1 1600k \
        -b:v:2 2400k -maxrate:v:2 3000k -bufsize:v:2 4800k \
        $audio -b:a 64k \
        -f hls -hls_time 4 -hls_playlist_type vod -hls_segment_type fmp4 \
        -hls_flags independent_segments -master_pl_name master.m3u8 \
        -var_stream_map "v:0,a:0,name:240p v:1,a:1,name:360p v:2,a:2,name:720p" \
        -hls_fmp4_init_filename init.mp4 \
        -hls_segment_filename "$title/%v/segment-%03d.m4s" "$title/%v/index.m3u8"
    poster "$title/360p/index.m3u8" 12 "$title/poster.jpg"
}

hls_ts() {
    title="$work/game-of-life"
    mkdir -p "$title"
    # shellcheck disable=SC2086
    encode -f lavfi -i "life=s=320x180:r=25:ratio=0.12:seed=11:mold=12:life_color=#ffd166:death_color=#12355b:mold_color=#1d7874" \
        -f lavfi -i sine=f=440:d=48 -t 48 -vf scale=640:360:flags=neighbor \
        $video -b:v 1000k -maxrate 1500k -bufsize 2000k $audio -b:a 64k \
        -f hls -hls_time 2 -hls_playlist_type vod \
        -hls_segment_filename "$title/segment-%03d.ts" "$title/index.m3u8"
    poster "$title/index.m3u8" 10 "$title/poster.jpg"
}

dash() {
    title="$work/colour-wheel"
    mkdir -p "$title"
    # shellcheck disable=SC2086
    encode -f lavfi -i "testsrc2=s=640x360:r=25:d=48" -f lavfi -i sine=f=550:b=2:d=48 \
        -filter_complex "[0]hue=H=0.3*t,split[a][b];[a]scale=426:240[s];[b]null[m]" \
        -map "[s]" -map "[m]" -map 1:a \
        $video -b:v:0 350k -maxrate:v:0 450k -bufsize:v:0 700k \
        -b:v:1 1000k -maxrate:v:1 1300k -bufsize:v:1 2000k $audio -b:a 64k \
        -f dash -seg_duration 4 -use_template 1 -use_timeline 0 \
        -init_seg_name "init-\$RepresentationID\$.mp4" \
        -media_seg_name "chunk-\$RepresentationID\$-\$Number%05d\$.m4s" \
        -adaptation_sets "id=0,streams=v id=1,streams=a" "$title/manifest.mpd"
    poster "$title/manifest.mpd" 15 "$title/poster.jpg"
}

echo "sample: creating a small library in $library (about half a minute)"
plain
hls_fmp4
hls_ts
dash
# An empty folder may exist; if it was filled meanwhile this fails, as it should.
[ ! -d "$library" ] || rmdir "$library"
mv -T "$work" "$library"
echo "sample: $(find "$library" -type f | wc -l) files, $(du -sh "$library" | cut -f1)"

#!/bin/sh
# Builds the pages in web/ into web/dist, from which they are embedded in the binary. Does nothing
# if no source is newer than the last build.
set -eu
cd "$(dirname "$0")/../web" 2>/dev/null || {
    echo "web: there are no pages in this tree"
    exit 0
}
[ -f package.json ] || {
    echo "web: there are no pages in this tree"
    exit 0
}

# npm writes this file last, so it marks a complete installation.
installed=node_modules/.package-lock.json
if [ ! -f "$installed" ] || [ package-lock.json -nt "$installed" ] || [ package.json -nt "$installed" ]; then
    # Without the internet npm would wait for minutes.
    npm="npm ci --no-audit --no-fund --loglevel=error"
    if timeout 4 npm view hls.js version --fetch-timeout=3000 --fetch-retries=0 >/dev/null 2>&1; then
        $npm
    else
        echo "web: npm's registry does not answer; trying its cache for web/package-lock.json" >&2
        $npm --offline >/dev/null 2>&1 || {
            echo "web: packages are missing: connect this machine, or copy web/node_modules" >&2
            exit 1
        }
    fi
    touch "$installed"
fi

built=dist/index.html
if [ ! -f "$built" ] || [ -n "$(find . -path ./node_modules -prune -o -path ./dist -prune -o \
    -path ./tests -prune -o -type f -newer "$built" -print | head -n 1)" ]; then
    npm run --silent build
    touch "$built"
else
    echo "web: web/dist is current"
fi

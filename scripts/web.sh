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
    npm ci --no-audit --no-fund --loglevel=error
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

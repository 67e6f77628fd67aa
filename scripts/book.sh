#!/bin/sh
# The documents as a searchable site: target/book/html/index.html. Installs mdbook into target/tools
# if it is missing, which takes some minutes.
set -eu
cd "$(dirname "$0")/.."

version=0.5.2
target=${CARGO_TARGET_DIR:-$PWD/target}
tools=$target/tools
PATH=$PATH:$tools/bin
command -v mdbook >/dev/null ||
    cargo install --locked mdbook --version "$version" --no-default-features --features search \
        --root "$tools"

book=$target/book
rm -rf "$book"
mkdir -p "$book"
cp -R docs "$book/src"
# Links to files outside docs/ are replaced by their text.
find "$book/src" -name '*.md' -exec sed -i 's#\[\([^]]*\)\](\.\./\.\./[^)]*)#\1#g' {} +
cat >"$book/book.toml" <<'END'
[book]
title = "Headlong"
description = "A server of long-tail HTTP streaming video on hard disks"
language = "en"

[build]
build-dir = "html"

[output.html]
no-section-label = true
END
mdbook build "$book"
echo "book: $book/html/index.html"

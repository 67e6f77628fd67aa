#!/bin/sh
# Installs the packages that the tests in Python import into a folder below target/, unless they are
# there, and prints the folder. Needs PyPI.
set -eu
cd "$(dirname "$0")/.."

version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
folder=${CARGO_TARGET_DIR:-$PWD/target}/python-$version
if [ ! -d "$folder" ]; then
    rm -rf "$folder.new"
    python3 -m pip install -q --disable-pip-version-check --target "$folder.new" \
        duckdb pandas polars pyarrow pytest >&2
    mv "$folder.new" "$folder"
fi
echo "$folder"

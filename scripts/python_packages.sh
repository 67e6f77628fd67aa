#!/bin/sh
# Installs the packages of programs/python/tests/requirements.txt into a folder below target/, unless
# it has those of this list, and prints the folder. Needs PyPI.
set -eu
cd "$(dirname "$0")/.."

list=programs/python/tests/requirements.txt
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
folder=${CARGO_TARGET_DIR:-$PWD/target}/python-$version
if ! cmp -s "$list" "$folder/requirements.txt"; then
    rm -rf "$folder.new"
    python3 -m pip install -q --disable-pip-version-check --target "$folder.new" -r "$list" >&2
    cp "$list" "$folder.new/"
    rm -rf "$folder"
    mv "$folder.new" "$folder"
fi
echo "$folder"

#!/bin/sh
# Licences, sources, bans and advisories of all dependencies, by cargo-deny. Installs it into
# target/tools if it is missing, which takes some minutes; advisories need the network.
set -eu
cd "$(dirname "$0")/.."

version=0.20.2
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
PATH=$PATH:$tools/bin
command -v cargo-deny >/dev/null ||
    cargo install --locked cargo-deny --version "$version" --root "$tools"
cargo deny --log-level error check

#!/bin/sh
# Formatting and lints, without any change to files.
set -eu
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo clippy --workspace --all-targets -- -D warnings
for script in scripts/*.sh packaging/package/test.sh packaging/package/p* .ci/run; do
    sh -n "$script"
done
if command -v Rscript >/dev/null; then
    sed -n '/^```r$/,/^```$/{/^```/d;p}' docs/lab/r.md | Rscript -e 'invisible(parse(file("stdin")))'
fi
if command -v cargo-deny >/dev/null; then
    cargo deny --log-level error check licenses sources bans
else
    echo "check: cargo-deny is not installed; licences and sources were not checked (make deny does that)"
fi

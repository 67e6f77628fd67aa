#!/bin/sh
# Software bill of materials of the programs, as CycloneDX 1.5 in JSON:
# target/sbom/PROGRAM.cdx.json. Installs the tool into target/tools if it is missing, which takes
# some minutes.
set -eu
cd "$(dirname "$0")/.."

version=0.5.9
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
out=${CARGO_TARGET_DIR:-$PWD/target}/sbom
PATH=$PATH:$tools/bin
command -v cargo-cyclonedx >/dev/null ||
    cargo install --locked cargo-cyclonedx --version "$version" --root "$tools"
mkdir -p "$out"
for program in headlong headlong-lab; do
    # The tool writes beside the manifest of each workspace package; only one file is needed.
    cargo cyclonedx --quiet --manifest-path "programs/$program/Cargo.toml" --format json \
        --spec-version 1.5 --no-build-deps --override-filename sbom-of-release
    mv "programs/$program/sbom-of-release.json" "$out/$program.cdx.json"
    find . -path ./target -prune -o -name sbom-of-release.json -exec rm {} +
    echo "sbom: $out/$program.cdx.json"
done

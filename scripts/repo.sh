#!/bin/sh
# Adds packages to a signed apt repository: target/repo, to be copied to any web server.
# docs/operate/install.md shows how a machine uses it.
#
#   KEY=FINGERPRINT scripts/repo.sh [FILE.deb...]    # default: target/packages/*.deb
#   OUT_DIR=DIR                                      # folder of the repository
set -eu
cd "$(dirname "$0")/.."
. scripts/arch.sh

: "${KEY:?is missing: the fingerprint of a secret key of gpg, which signs the repository}"
need apt-ftparchive apt-utils
need gpg gnupg
target=${CARGO_TARGET_DIR:-target}
out=${OUT_DIR:-$target/repo}
[ $# -gt 0 ] || set -- "$target"/packages/*.deb
[ -f "$1" ] || {
    echo "repo: there is no package; run make packages" >&2
    exit 1
}
mkdir -p "$out/pool"
cp "$@" "$out/pool/"
cd "$out"
# A new folder replaces the old one, so that no client reads half of it.
rm -rf dists.new
for arch in amd64 arm64; do
    index=dists.new/stable/main/binary-$arch
    mkdir -p "$index"
    apt-ftparchive --arch "$arch" packages pool >"$index/Packages"
    xz -k "$index/Packages"
done
(
    cd dists.new/stable
    release=APT::FTPArchive::Release
    apt-ftparchive -o $release::Origin=headlong -o $release::Suite=stable -o $release::Codename=stable \
        -o $release::Components=main -o "$release::Architectures=amd64 arm64" release . >../Release
    mv ../Release Release
    gpg --batch --local-user "$KEY" --armor --detach-sign --output Release.gpg Release
    gpg --batch --local-user "$KEY" --clearsign --output InRelease Release
)
gpg --batch --yes --output headlong.gpg --export "$KEY"
rm -rf dists
mv dists.new dists
echo "repo: $out"

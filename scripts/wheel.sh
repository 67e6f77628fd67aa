#!/bin/sh
# Builds the wheel of the Python package, with headlong-lab in it, and tests it in a clean virtual
# environment of each Python. Needs PyPI.
#
#   PYTHONS="python3 python3.13"   interpreters [python3]
#   PROFILE=dev                    unoptimised, for a quick test [release]
#   BIN_DIR=target/debug           take headlong-lab from there instead of building it
#   SPARK=1                        test under Spark, too: needs Java 17 and some 500 MB of pyspark
set -eu
cd "$(dirname "$0")/.."

profile=${PROFILE:-release}
pythons=${PYTHONS:-python3}
package=programs/python
work=target/wheel
maturin="maturin>=1.16,<2"

first=${pythons%% *}
rm -rf "$work"
mkdir -p "$work"
"$first" -m venv "$work/build" || {
    echo "wheel: $first cannot make virtual environments; apt-get install python3-venv" >&2
    exit 1
}
"$work/build/bin/pip" install -q --disable-pip-version-check "$maturin"

if [ -z "${BIN_DIR:-}" ]; then
    cargo build --profile "$profile" -p headlong-lab
    case $profile in
    dev) BIN_DIR=target/debug ;;
    *) BIN_DIR=target/$profile ;;
    esac
fi
mkdir -p "$package/headlong.data/scripts"
cp "$BIN_DIR/headlong-lab" "$package/headlong.data/scripts/"
strip "$package/headlong.data/scripts/headlong-lab"

"$work/build/bin/maturin" build -q -m "$package/Cargo.toml" --profile "$profile" --strip --out "$work/wheels"
wheel=$(ls "$work"/wheels/*.whl)
echo "wheel: $wheel, $(du -k "$wheel" | cut -f 1) KiB"

for python in $pythons; do
    clean=$work/clean-$(basename "$python")
    "$python" -m venv "$clean"
    # First alone: it needs no other package.
    "$clean/bin/pip" install -q --disable-pip-version-check "$wheel"
    "$clean/bin/python" -c 'import headlong; print("headlong", headlong.__version__, headlong.read_log(
        b"ts_ms,session,file,offset,size,bytes\n1000,a,f.mp4,0,10,10\n"))'
    # shellcheck disable=SC2086 # the packages are words
    "$clean/bin/pip" install -q --disable-pip-version-check -r "$package/tests/requirements.txt" \
        mypy ${SPARK:+pyspark setuptools}
    # Not `python -m pytest`, which would import the sources instead of the wheel.
    "$clean/bin/pytest" -q -rs -p no:cacheprovider "$package/tests"
    "$clean/bin/mypy" --config-file "$package/pyproject.toml" --cache-dir "$clean/mypy" -p headlong
done

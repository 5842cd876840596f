#!/bin/sh
# Usage: docker/install.sh PREFIX [SET...]
# Installs the server, from this source tree, into a virtual environment at PREFIX, with the pinned versions of
# requirements/server.txt and of any further set (spark). The Dockerfile runs this; so does `make docker-check`, without Docker.
set -eu
cd "$(dirname "$0")/.."

prefix=$1
shift
python=${PYTHON:-python3}
quiet="--quiet --disable-pip-version-check --no-cache-dir --no-deps"

# What builds stays out of the image: a wheel is made in an environment of its own.
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
"$python" -m venv "$build/venv"
# shellcheck disable=SC2086
"$build/venv/bin/python" -m pip install $quiet --no-build-isolation -r requirements/build.txt
for set in server "$@"; do
    # Packages that exist as sources only become wheels here too.
    # shellcheck disable=SC2086
    "$build/venv/bin/python" -m pip wheel $quiet --no-build-isolation --wheel-dir "$build/wheels" -r "requirements/$set.txt"
done
# shellcheck disable=SC2086
"$build/venv/bin/python" -m pip wheel $quiet --no-build-isolation --wheel-dir "$build/wheels" .

"$python" -m venv --without-pip "$prefix"
# shellcheck disable=SC2086
"$build/venv/bin/python" -m pip --python "$prefix/bin/python" install --no-index $quiet "$build"/wheels/*.whl

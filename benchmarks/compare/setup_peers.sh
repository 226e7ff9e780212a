#!/bin/sh
# Makes the environment the peers are measured in: .venv-peers beside the checkout's .venv, pinned versions, and
# Headrace built from this checkout. `make bench-peers` calls it; calling it again only brings it up to date.
#
#   PYTHON=python3.11 benchmarks/compare/setup_peers.sh [--peers-only]
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
venv=${HEADRACE_PEERS_VENV:-$root/.venv-peers}
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || {
    echo "setup_peers: the pinned peers need Python 3.11, found $("$python" --version 2>&1); set PYTHON=python3.11" >&2
    exit 1
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"

"$venv/bin/python" -m pip install --quiet -r "$root/benchmarks/compare/requirements-peers.txt"
[ "${1:-}" = --peers-only ] || "$venv/bin/python" -m pip install --quiet "$root[compress,array-record]"
"$venv/bin/python" -m pip check

# The SageMaker SDK wants versions of its own: its rows run in another environment.
sagemaker=$root/.venv-peers-sagemaker
[ -x "$sagemaker/bin/python" ] || "$python" -m venv "$sagemaker"
"$sagemaker/bin/python" -m pip install --quiet -r "$root/benchmarks/compare/requirements-peers-sagemaker.txt"

# FFCV is built from its source against OpenCV and libjpeg-turbo. Without them its row says that it has no environment.
ffcv=$root/.venv-peers-ffcv
if pkg-config --exists opencv4 libturbojpeg 2>/dev/null; then
    [ -x "$ffcv/bin/python" ] || "$python" -m venv "$ffcv"
    "$ffcv/bin/python" -m pip install --quiet "setuptools<81" wheel numpy==2.4.6
    "$ffcv/bin/python" -m pip install --quiet --no-build-isolation -r "$root/benchmarks/compare/requirements-peers-ffcv.txt"
else
    echo "setup_peers: no FFCV: apt-get install pkg-config libopencv-dev libturbojpeg0-dev" >&2
    ffcv="(no FFCV)"
fi
echo "peers ready: $venv, $sagemaker, $ffcv"

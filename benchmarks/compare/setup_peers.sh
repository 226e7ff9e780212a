#!/bin/sh
# Makes the environment the peers are measured in: .venv-peers beside the checkout's .venv, pinned versions, and
# Penstock built from this checkout. `make bench-peers` calls it; calling it again only brings it up to date.
#
#   PYTHON=python3.11 benchmarks/compare/setup_peers.sh [--peers-only]
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
venv=${PENSTOCK_PEERS_VENV:-$root/.venv-peers}
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
echo "peers ready: $venv, $sagemaker"

#!/bin/sh
# Makes the environment in which the serving flow runs: .venv-peers-serving beside the checkout's .venv, with the other servers.
# Penstock is taken from the checkout: PYTHONPATH=src .venv-peers-serving/bin/python -m benchmarks.flows.serving
#
#   PYTHON=python3.11 benchmarks/flows/serving/setup_peers.sh
set -eu

root=$(cd "$(dirname "$0")/../../.." && pwd)
venv=$root/.venv-peers-serving
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet -r "$root/benchmarks/flows/serving/requirements-peers.txt"
echo "peers ready: $venv"

#!/bin/sh
# Makes the environments of the serving flow: .venv-peers-serving, in which it runs, with the other servers, and
# .venv-peers-mlflow beside it (MLflow's pins do not go together with theirs). Beside the checkout's .venv, or in a folder.
# Headrace is taken from the checkout: PYTHONPATH=src .venv-peers-serving/bin/python -m benchmarks.serving
#
#   PYTHON=python3.11 benchmarks/serving/setup_peers.sh [FOLDER]
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(cd "$here/../.." && pwd)}
for name in serving mlflow; do
  venv=$folder/.venv-peers-$name
  [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
done
"$folder/.venv-peers-serving/bin/python" -m pip install --quiet -r "$here/requirements-peers.txt"
"$folder/.venv-peers-mlflow/bin/python" -m pip install --quiet -r "$here/requirements-peers-mlflow.txt"
echo "peers ready: $folder/.venv-peers-serving $folder/.venv-peers-mlflow"

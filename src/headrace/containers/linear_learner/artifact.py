"""The trained model: its weights, what they answer, and the artifact that they are kept in.

``model.tar.gz`` holds ``model_algo-1``, a zip of ``manifest.json``, ``additional-params.json``, ``mx-mod-symbol.json`` (the
network) and ``mx-mod-0000.params`` (the arrays ``fc0_weight`` and ``fc0_bias``, for raw features). Source: artifacts of the
real algorithm as the SageMaker developer guide and users describe them; the two ``mx-mod`` files are those of an MXNet module.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headrace.containers.linear_learner.hyperparameters import BINARY, LOSSES, MULTICLASS, REGRESSOR
from headrace.containers.linear_learner.mxnet_params import read_params, write_params
from headrace.containers.linear_learner.training.optimizers import Array, sigmoid
from headrace.errors import CorruptFile, DataError, NoFiles, UnsupportedData, Where
from headrace.io.json_text import load_json
from headrace.io.write.atomic import write_atomic

__all__ = ["Model", "load_model", "save_model"]

NAME = "model_algo-1"
SYMBOL = "mx-mod-symbol.json"
PARAMS = "mx-mod-0000.params"
ADDITIONAL = "additional-params.json"
MANIFEST = "manifest.json"
WEIGHT, BIAS = "fc0_weight", "fc0_bias"
MOST_BYTES = 4 << 30  # of a member: real weights are far smaller
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of others, zipfile decompresses any amount at once
OUTPUTS = {
    "LinearRegressionOutput": REGRESSOR,
    "MAERegressionOutput": REGRESSOR,
    "LogisticRegressionOutput": BINARY,
    "SoftmaxOutput": MULTICLASS,
}
MXNET_VERSION = 10901


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """A linear model for raw features.

    Args:
        predictor_type: ``"regressor"``, ``"binary_classifier"`` or ``"multiclass_classifier"``.
        loss: What it was trained with.
        weights: ``float32 (outputs, features)``.
        bias: ``float32 (outputs,)``.
        threshold: Answers above it are class 1 (binary models).
    """

    predictor_type: str
    loss: str
    weights: Array
    bias: Array
    threshold: float = 0.5

    @property
    def features(self) -> int:
        return int(self.weights.shape[1])

    def scores(self, rows: Any) -> Array:
        """``float32 (n, outputs)`` for rows ``(n, features)``, an array or a SciPy matrix."""
        return np.asarray(rows @ self.weights.T + self.bias, np.float32)

    def answers(self, scores: Array) -> Array:
        """What clients get for scores ``(n, outputs)``: values, probabilities, of hinge loss margins."""
        if self.predictor_type == BINARY and self.loss != "hinge_loss":
            return sigmoid(scores)
        if self.predictor_type == MULTICLASS:
            likely = np.exp(scores - scores.max(axis=1, keepdims=True))
            return np.asarray(likely / likely.sum(axis=1, keepdims=True))
        return scores

    def labels(self, answers: Array) -> Array | None:
        """The classes ``(n,)`` that answers mean; ``None`` for regression."""
        if self.predictor_type == REGRESSOR:
            return None
        if self.predictor_type == BINARY:
            # In float64, as thresholds are: one may lie between two neighbours of float32.
            return (answers[:, 0].astype(np.float64) > self.threshold).astype(np.int64)
        return np.asarray(answers.argmax(axis=1))


def save_model(model: Model, folder: Path) -> Path:
    """Write the artifact into a folder.

    Returns:
        Its path.
    """
    arrays = {f"arg:{WEIGHT}": model.weights, f"arg:{BIAS}": model.bias}
    additional = {"predictor_type": model.predictor_type, "loss": model.loss, "threshold": model.threshold}
    members = {
        MANIFEST: json.dumps({"format": "mxnet-module", "files": [SYMBOL, PARAMS, ADDITIONAL]}).encode(),
        ADDITIONAL: json.dumps(additional).encode(),
        SYMBOL: json.dumps(_symbol(model), indent=2).encode(),
        PARAMS: write_params(arrays),
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, member in members.items():
            # A fixed time: the same model is the same bytes.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), member)
    path = folder / NAME
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content.getvalue())
    return path


def load_model(folder: Path) -> Model:
    """The model in an unpacked ``model.tar.gz``: ours, or one that SageMaker has trained.

    Raises:
        NoFiles: There is none.
        CorruptFile, UnsupportedData: It is damaged, or no linear model.
    """
    members, path = _members(folder)
    if PARAMS not in members:
        raise NoFiles(Where(path=path), expected=f"{PARAMS} in a Linear Learner artifact", found=", ".join(members))
    arrays = {name.rpartition(":")[2]: array for name, array in read_params(members[PARAMS], path).items()}
    weights, bias = _checked(arrays, path)
    additional = _json(members.get(ADDITIONAL, b"{}"), path)
    symbol = _json(members.get(SYMBOL, b"{}"), path)
    predictor = str(additional.get("predictor_type") or _predictor_of(symbol, len(weights)))
    if predictor not in LOSSES:
        raise UnsupportedData(Where(path=path), expected=f"one of {', '.join(LOSSES)}", found=predictor)
    loss = str(additional.get("loss") or LOSSES[predictor][0])
    threshold = _threshold(additional, 0.0 if loss == "hinge_loss" else 0.5)
    return Model(predictor_type=predictor, loss=loss, weights=weights, bias=bias, threshold=threshold)


def _members(folder: Path) -> tuple[dict[str, bytes], str]:
    """The files of an artifact: in the zip, or unpacked beside each other."""
    for path in sorted(folder.glob("model_algo-*")):
        try:
            with zipfile.ZipFile(path) as archive:
                return _read_members(archive, str(path)), str(path)
        # zipfile raises these for headers that make no sense.
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            RuntimeError,
            EOFError,
            ValueError,
            OSError,
            zlib.error,
        ) as error:
            if isinstance(error, DataError):
                raise
            raise CorruptFile(Where(path=str(path)), expected="a sound zip", found=str(error)) from error
    bare = {path.name: path.read_bytes() for path in folder.glob("*") if path.name in (PARAMS, SYMBOL, ADDITIONAL)}
    if not bare:
        raise NoFiles(
            Where(path=str(folder)), expected=f"{NAME}, the artifact of Linear Learner", found="no such file in it"
        )
    return bare, str(folder)


def _read_members(archive: zipfile.ZipFile, path: str) -> dict[str, bytes]:
    """The contents of the files that make a model; of any other only the name, with nothing in it."""
    found: dict[str, bytes] = {}
    for member in archive.infolist():
        name = Path(member.filename).name
        is_read = name in (PARAMS, SYMBOL, ADDITIONAL)
        if is_read and (member.file_size > MOST_BYTES or member.compress_type not in COMPRESSIONS):
            raise UnsupportedData(
                Where(path=path),
                expected=f"members of at most {MOST_BYTES >> 30} GiB, stored or deflated",
                found=f"{name!r} of {member.file_size:,} bytes",
            )
        found[name] = archive.read(member) if is_read else b""
    return found


def _checked(arrays: dict[str, Array], path: str) -> tuple[Array, Array]:
    weights, bias = arrays.get(WEIGHT), arrays.get(BIAS)
    if weights is None or weights.ndim != 2 or not weights.size:
        found = "none" if weights is None else f"shape {weights.shape}"
        raise CorruptFile(Where(path=path, feature=WEIGHT), expected="weights (outputs, features)", found=found)
    if bias is None:  # use_bias=false
        bias = np.zeros(len(weights), np.float32)
    if bias.shape != (len(weights),):
        raise CorruptFile(
            Where(path=path, feature=BIAS), expected=f"shape ({len(weights)},)", found=f"shape {bias.shape}"
        )
    return np.asarray(weights, np.float32), np.asarray(bias, np.float32)


def _json(content: bytes, path: str) -> dict[str, Any]:
    try:
        found = load_json(content)
    except ValueError as error:
        raise CorruptFile(Where(path=path), expected="JSON", found=str(error)) from error
    return found if isinstance(found, dict) else {}


def _predictor_of(symbol: dict[str, Any], outputs: int) -> str:
    """What the last node of the network says; where it says nothing, what the number of outputs does."""
    for node in reversed(symbol.get("nodes", [])):
        if isinstance(node, dict) and node.get("op") in OUTPUTS:
            return OUTPUTS[node["op"]]
    return REGRESSOR if outputs == 1 else MULTICLASS


def _threshold(additional: dict[str, Any], default: float) -> float:
    value = additional.get("threshold", default)
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else default


def _symbol(model: Model) -> dict[str, Any]:
    """The network as MXNet 1.x writes it: data, a fully connected layer, and the output that suits the predictor."""
    output = next(op for op, predictor in OUTPUTS.items() if predictor == model.predictor_type)
    hidden = {"num_hidden": str(len(model.weights))}
    return {
        "nodes": [
            {"op": "null", "name": "data", "inputs": []},
            {"op": "null", "name": WEIGHT, "attrs": hidden, "inputs": []},
            {"op": "null", "name": BIAS, "attrs": hidden, "inputs": []},
            {"op": "FullyConnected", "name": "fc0", "attrs": hidden, "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]},
            {"op": "null", "name": "out_label", "inputs": []},
            {"op": output, "name": "out", "inputs": [[3, 0, 0], [4, 0, 0]]},
        ],
        "arg_nodes": [0, 1, 2, 4],
        "node_row_ptr": [0, 1, 2, 3, 4, 5, 6],
        "heads": [[5, 0, 0]],
        "attrs": {"mxnet_version": ["int", MXNET_VERSION]},
    }

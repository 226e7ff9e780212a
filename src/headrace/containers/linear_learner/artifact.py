"""The trained model, and its artifact.

``model.tar.gz`` holds ``model_algo-1``, a zip of ``manifest.json``, ``additional-params.json``, ``mx-mod-symbol.json`` (the
network) and ``mx-mod-0000.params`` (the arrays ``fc0_weight`` and ``fc0_bias``, for unscaled features). Source: artifacts of the
real algorithm as described by the SageMaker developer guide and users. The two ``mx-mod`` files are those of an MXNet module.

The weights are in MXNet's file format for named arrays (``mx.nd.save``). Source of the layout: ``NDArray::Save`` and ``NDArray::Load`` of MXNet 1.x (``src/ndarray/ndarray.cc``). Little-endian:

    file    u64 0x112, u64 0, u64 number of arrays, arrays, u64 number of names, names (u64 length, bytes)
    array   u32 magic, i32 storage (0: dense), shape, i32 device kind, i32 device, i32 type, values in C order
    shape   u32 axes, then i64 per axis

Older files have no storage kind (magic ...C8), or no magic at all and a shape of u32; both are read.
"""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.containers.linear_learner.hyperparameters import BINARY, LOSSES, MULTICLASS, REGRESSOR
from headrace.containers.linear_learner.training.optimizers import Array, sigmoid
from headrace.errors import CorruptFile, DataError, NoFiles, UnsupportedData, Where
from headrace.io.json_text import load_json
from headrace.io.write.atomic import write_atomic

__all__ = ["Model", "load_model", "read_params", "save_model", "write_params"]


LIST_MAGIC = 0x112
PARAMS_V1, PARAMS_V2, PARAMS_V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
DENSE = 0
CPU = 1
DTYPES = {0: "<f4", 1: "<f8", 2: "<f2", 3: "u1", 4: "<i4", 5: "i1", 6: "<i8"}
FLOAT32_CODE = 0
MOST_AXES = 32


def write_params(arrays: Mapping[str, npt.NDArray[np.float32]]) -> bytes:
    """The bytes that ``mx.nd.save`` writes for these arrays."""
    out = [struct.pack("<QQQ", LIST_MAGIC, 0, len(arrays))]
    for array in arrays.values():
        out.append(struct.pack("<IiI", PARAMS_V2, DENSE, array.ndim))
        out.append(struct.pack(f"<{array.ndim}q", *array.shape))
        out.append(struct.pack("<iii", CPU, 0, FLOAT32_CODE))
        out.append(np.ascontiguousarray(array, "<f4").tobytes())
    out.append(struct.pack("<Q", len(arrays)))
    for name in arrays:
        text = name.encode()
        out.append(struct.pack("<Q", len(text)) + text)
    return b"".join(out)


def read_params(content: bytes, path: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays in a file, by name.

    Args:
        content: The whole file.
        path: The path of the file, for messages.

    Raises:
        CorruptFile: The file is truncated, or of another kind.
        UnsupportedData: It holds sparse arrays, or values of an unknown type.
    """
    reader = _ParamsReader(content, path)
    if reader.take("<Q") != LIST_MAGIC:
        raise reader.fault("the magic number 0x112 of a list of arrays", "another")
    reader.take("<Q")
    arrays = [_read_array(reader) for _ in range(reader.count(4))]
    names = [reader.bytes(reader.count(1)).decode("utf-8", "replace") for _ in range(reader.count(8))]
    if len(names) != len(arrays):
        raise reader.fault(f"{len(arrays)} names, one for each array", f"{len(names)}")
    return dict(zip(names, arrays, strict=True))


class _ParamsReader:
    """Reads values in order, and checks that the content has them."""

    def __init__(self, content: bytes, path: str) -> None:
        self._content = content
        self._path = path
        self._at = 0

    def bytes(self, size: int) -> bytes:
        if size < 0 or size > len(self._content) - self._at:
            raise self.fault(f"{size} more bytes", f"the end after {len(self._content) - self._at}")
        part = self._content[self._at : self._at + size]
        self._at += size
        return part

    def take(self, kind: str) -> int:
        return int(struct.unpack(kind, self.bytes(struct.calcsize(kind)))[0])

    def count(self, each: int) -> int:
        """A count of items that need at least ``each`` bytes."""
        found = self.take("<Q")
        if found * each > len(self._content) - self._at:
            raise self.fault(f"room for {found} items", f"{len(self._content) - self._at} bytes")
        return found

    def fault(self, expected: str, found: str) -> CorruptFile:
        return CorruptFile(Where(path=self._path, offset=self._at), expected=expected, found=found)

    def unsupported(self, expected: str, found: str) -> UnsupportedData:
        return UnsupportedData(Where(path=self._path, offset=self._at), expected=expected, found=found)


def _read_array(reader: _ParamsReader) -> npt.NDArray[Any]:
    magic = reader.take("<I")
    if magic in (PARAMS_V2, PARAMS_V3) and (storage := reader.take("<i")) != DENSE:
        raise reader.unsupported("a dense array", f"storage kind {storage}")
    new = magic in (PARAMS_V1, PARAMS_V2, PARAMS_V3)
    axes = reader.take("<I") if new else magic  # Without a magic number, the first number is the number of axes.
    if axes > MOST_AXES:
        raise reader.fault(f"at most {MOST_AXES} axes", str(axes))
    shape = [reader.take("<q" if new else "<I") for _ in range(axes)]
    if axes == 0 or min(shape) < 0:
        return np.zeros(0, np.float32)
    reader.bytes(8)  # the device
    kind = reader.take("<i")
    if kind not in DTYPES:
        raise reader.unsupported(f"one of the types {sorted(DTYPES)}", str(kind))
    dtype = np.dtype(DTYPES[kind])
    return np.frombuffer(reader.bytes(math.prod(shape) * dtype.itemsize), dtype).reshape(shape)


NAME = "model_algo-1"
SYMBOL = "mx-mod-symbol.json"
PARAMS = "mx-mod-0000.params"
ADDITIONAL = "additional-params.json"
MANIFEST = "manifest.json"
WEIGHT, BIAS = "fc0_weight", "fc0_bias"
MOST_BYTES = 4 << 30  # per member: real weights are far smaller
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # zipfile decompresses others all at once, in any amount
OUTPUTS = {
    "LinearRegressionOutput": REGRESSOR,
    "MAERegressionOutput": REGRESSOR,
    "LogisticRegressionOutput": BINARY,
    "SoftmaxOutput": MULTICLASS,
}
MXNET_VERSION = 10901


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """A linear model for unscaled features.

    Args:
        predictor_type: ``"regressor"``, ``"binary_classifier"`` or ``"multiclass_classifier"``.
        loss: The training loss.
        weights: ``float32 (outputs, features)``.
        bias: ``float32 (outputs,)``.
        threshold: Answers above it are class 1, for binary models.
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
        """The answers for scores ``(n, outputs)``: values, probabilities, or margins for hinge loss."""
        if self.predictor_type == BINARY and self.loss != "hinge_loss":
            return sigmoid(scores)
        if self.predictor_type == MULTICLASS:
            likely = np.exp(scores - scores.max(axis=1, keepdims=True))
            return np.asarray(likely / likely.sum(axis=1, keepdims=True))
        return scores

    def labels(self, answers: Array) -> Array | None:
        """The predicted classes ``(n,)``; ``None`` for regression."""
        if self.predictor_type == REGRESSOR:
            return None
        if self.predictor_type == BINARY:
            # In float64, because a threshold may lie between two float32 values.
            return (answers[:, 0].astype(np.float64) > self.threshold).astype(np.int64)
        return np.asarray(answers.argmax(axis=1))


def save_model(model: Model, folder: Path) -> Path:
    """Write the artifact into a folder.

    Returns:
        The path of the artifact.
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
            # A fixed time, so that the same model always gives the same bytes.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), member)
    path = folder / NAME
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content.getvalue())
    return path


def load_model(folder: Path) -> Model:
    """Load the model in an unpacked ``model.tar.gz``: ours, or one trained by SageMaker.

    Raises:
        NoFiles: There is no model.
        CorruptFile, UnsupportedData: The model is damaged, or not linear.
    """
    members, path = _members(folder)
    if PARAMS not in members:
        raise NoFiles(Where(path=path), expected=f"{PARAMS} in a Linear Learner artifact", found=", ".join(members))
    arrays = {name.rpartition(":")[2]: array for name, array in read_params(members[PARAMS], path).items()}
    weights, bias = _weights_and_bias(arrays, path)
    additional = _json(members.get(ADDITIONAL, b"{}"), path)
    symbol = _json(members.get(SYMBOL, b"{}"), path)
    predictor = str(additional.get("predictor_type") or _predictor_of(symbol, len(weights)))
    if predictor not in LOSSES:
        raise UnsupportedData(Where(path=path), expected=f"one of {', '.join(LOSSES)}", found=predictor)
    loss = str(additional.get("loss") or LOSSES[predictor][0])
    threshold = _threshold(additional, 0.0 if loss == "hinge_loss" else 0.5)
    return Model(predictor_type=predictor, loss=loss, weights=weights, bias=bias, threshold=threshold)


def _members(folder: Path) -> tuple[dict[str, bytes], str]:
    """The files of an artifact, from the zip or unpacked."""
    for path in sorted(folder.glob("model_algo-*")):
        try:
            with zipfile.ZipFile(path) as archive:
                return _read_members(archive, str(path)), str(path)
        # zipfile raises these for invalid headers.
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
            raise CorruptFile(Where(path=str(path)), expected="an intact zip", found=str(error)) from error
    bare = {path.name: path.read_bytes() for path in folder.glob("*") if path.name in (PARAMS, SYMBOL, ADDITIONAL)}
    if not bare:
        raise NoFiles(
            Where(path=str(folder)), expected=f"{NAME}, the artifact of Linear Learner", found="no such file in it"
        )
    return bare, str(folder)


def _read_members(archive: zipfile.ZipFile, path: str) -> dict[str, bytes]:
    """The contents of the files of a model; other files are listed with empty content."""
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


def _weights_and_bias(arrays: dict[str, Array], path: str) -> tuple[Array, Array]:
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
    """The predictor type from the network's last node, else from the number of outputs."""
    for node in reversed(symbol.get("nodes", [])):
        if isinstance(node, dict) and node.get("op") in OUTPUTS:
            return OUTPUTS[node["op"]]
    return REGRESSOR if outputs == 1 else MULTICLASS


def _threshold(additional: dict[str, Any], default: float) -> float:
    value = additional.get("threshold", default)
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else default


def _symbol(model: Model) -> dict[str, Any]:
    """The network as MXNet 1.x writes it: data, a fully connected layer, and the output layer of the predictor type."""
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

"""Compares our values with those that TensorFlow Datasets read, as JSON from ``tests/peers/tfds_peer.py``."""

import base64

import numpy as np

from headrace.contracts.values import Ragged


def unflattened(values):
    """The steps of an episode have names joined by slashes."""
    out = {}
    for name, value in values.items():
        first, _, rest = name.partition("/")
        if first == "observation" and rest:
            out.setdefault(first, {})[rest] = value
        else:
            out[name] = value
    return out


def alike(theirs, ours, path, tolerance):  # noqa: C901 - one branch for each kind of value
    """Compare a value from TFDS, in the script's JSON form, with ours."""
    if "dict" in theirs:
        ours = unflattened(ours)
        assert theirs["dict"].keys() == ours.keys(), path
        for name, value in theirs["dict"].items():
            alike(value, ours[name], f"{path}/{name}", tolerance)
        return
    if "list" in theirs:
        rows = list(ours)
        assert len(theirs["list"]) == len(rows), path
        for position, (value, row) in enumerate(zip(theirs["list"], rows)):
            alike(value, row, f"{path}[{position}]", tolerance)
        return
    if "dtype" not in theirs:
        assert ours == base64.b64decode(theirs["b64"]), path
        return
    expected = np.frombuffer(base64.b64decode(theirs["b64"]), theirs["dtype"]).reshape(theirs["shape"])
    if ours is None:  # TFDS's TensorFlow path returns this for missing values
        lowest = np.finfo(expected.dtype).min if expected.dtype.kind == "f" else np.iinfo(expected.dtype).min
        assert (expected == lowest).all(), path
        return
    if isinstance(ours, Ragged):
        ours = np.zeros(expected.shape, expected.dtype) if expected.size == 0 else ours.to_padded()
    found = np.asarray(ours)
    if expected.dtype.kind == "f" and found.dtype == object:
        found = np.stack(list(found)) if len(found) else found.astype(expected.dtype)
    assert found.dtype == expected.dtype or expected.size == 0, (path, found.dtype, expected.dtype)
    assert found.shape == expected.shape or expected.size == found.size == 0, (path, found.shape, expected.shape)
    if expected.size == 0:
        return
    if tolerance and expected.dtype == np.uint8 and "jpeg" in path:
        assert np.abs(found.astype(int) - expected.astype(int)).max(initial=0) <= tolerance, path
    else:
        np.testing.assert_array_equal(found, expected, err_msg=path)


def same_example(theirs, ours, path):
    """Compare an example."""
    for key in {"maybe_text"} & ours.keys():  # TFDS's TensorFlow path has no None
        ours[key] = b"" if ours[key] is None else ours[key]
    alike(theirs, ours, path, tolerance=8)

"""Artifacts: MXNet's own are read correctly, ours equal MXNet's, damaged ones are refused."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpys

from headrace.containers.linear_learner.artifact import Model, load_model, read_params, save_model, write_params
from headrace.containers.linear_learner.container import LinearLearnerContainer
from headrace.errors import CorruptFile, DataError, JobFailed, NoFiles, UnsupportedData

GOLDEN = Path(__file__).parents[2] / "golden" / "linear_learner"
PREDICTORS = ["regressor", "binary_classifier", "multiclass_classifier"]


def golden(name):
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def real_artifact(folder, name, *, zipped=True, additional=b"{}"):
    """An artifact as SageMaker's, around files that MXNet wrote."""
    members = {
        "mx-mod-symbol.json": (GOLDEN / f"{name}-symbol.json").read_bytes(),
        "mx-mod-0000.params": (GOLDEN / f"{name}-0000.params").read_bytes(),
        "additional-params.json": additional,
        "manifest.json": b"{}",
    }
    if zipped:
        with zipfile.ZipFile(folder / "model_algo-1", "w") as archive:
            for member, content in members.items():
                archive.writestr(member, content)
    else:
        for member, content in members.items():
            (folder / member).write_bytes(content)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", PREDICTORS)
def test_mxnet_artifacts_answer_as_in_mxnet(tmp_path, name, zipped):
    real_artifact(tmp_path, name, zipped=zipped)
    model = load_model(tmp_path)
    assert model.predictor_type == name
    expected = golden(name)
    np.testing.assert_array_equal(model.weights, np.float32(expected["weight"]))
    np.testing.assert_array_equal(model.bias, np.float32(expected["bias"]))
    answers = model.answers(model.scores(np.float32(expected["x"])))
    np.testing.assert_allclose(answers, np.float32(expected["y"]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", PREDICTORS)
def test_our_files_are_those_of_mxnet(tmp_path, name):
    expected = golden(name)
    weights, bias = np.float32(expected["weight"]), np.float32(expected["bias"])
    model = Model(predictor_type=name, loss="", weights=weights, bias=bias)
    path = save_model(model, tmp_path)
    with zipfile.ZipFile(path) as archive:
        assert archive.read("mx-mod-0000.params") == (GOLDEN / f"{name}-0000.params").read_bytes()
        ours = json.loads(archive.read("mx-mod-symbol.json"))
    assert ours == json.loads((GOLDEN / f"{name}-symbol.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("predictor", "loss", "threshold"), [("regressor", "huber_loss", 0.5), ("binary_classifier", "hinge_loss", -0.3)])  # fmt: skip
def test_written_files_read_back(tmp_path, predictor, loss, threshold):
    model = Model(
        predictor_type=predictor, loss=loss, weights=np.float32([[1, 2]]), bias=np.float32([3]), threshold=threshold
    )
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert (again.predictor_type, again.loss, again.threshold) == (predictor, loss, threshold)
    np.testing.assert_array_equal(again.weights, model.weights)


def test_without_a_bias(tmp_path):
    (tmp_path / "mx-mod-0000.params").write_bytes(write_params({"arg:fc0_weight": np.ones((1, 2), np.float32)}))
    assert load_model(tmp_path).bias.tolist() == [0]


@given(numpys.arrays(np.float32, numpys.array_shapes(min_dims=1, max_dims=4, min_side=0), elements=st.floats(width=32)))
def test_arrays_of_any_shape_come_back(array):
    again = read_params(write_params({"a": array, "b": np.float32([1])}), "x")
    np.testing.assert_array_equal(again["a"], array)
    assert again["b"].tolist() == [1]


def test_older_files_of_mxnet():
    values = np.float32([[1, 2, 3]])
    head = (0x112).to_bytes(8, "little") + bytes(8) + (1).to_bytes(8, "little")
    names = (1).to_bytes(8, "little") + (1).to_bytes(8, "little") + b"w"
    device = (1).to_bytes(4, "little") + bytes(8)
    first = (2).to_bytes(4, "little") + (1).to_bytes(4, "little") + (3).to_bytes(4, "little")
    second = (0xF993FAC8).to_bytes(4, "little") + (2).to_bytes(4, "little") + (1).to_bytes(8, "little") + (3).to_bytes(8, "little")  # fmt: skip
    for shape in (first, second):
        assert read_params(head + shape + device + values.tobytes() + names, "x")["w"].tolist() == [[1, 2, 3]]


def test_sparse_arrays_are_refused():
    content = bytearray(write_params({"w": np.ones((1, 2), np.float32)}))
    content[28] = 2  # the storage kind, after the magic word
    with pytest.raises(UnsupportedData, match="dense"):
        read_params(bytes(content), "x")


def test_params_cut_off_anywhere():
    whole = write_params({"arg:fc0_weight": np.ones((2, 3), np.float32), "arg:fc0_bias": np.zeros(2, np.float32)})
    for size in range(len(whole)):
        with pytest.raises(CorruptFile):
            read_params(whole[:size], "x")


def test_params_with_any_byte_changed():
    whole = write_params({"arg:fc0_weight": np.ones((2, 3), np.float32), "arg:fc0_bias": np.zeros(2, np.float32)})
    for place in range(len(whole)):
        for bits in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[place] ^= bits
            try:
                found = read_params(bytes(damaged), "x")
            except DataError:
                continue
            assert sum(array.nbytes for array in found.values()) <= len(whole)


def test_artifacts_that_cannot_be_loaded(tmp_path):
    with pytest.raises(NoFiles, match="model_algo-1"):
        load_model(tmp_path)
    (tmp_path / "model_algo-1").write_bytes(b"no zip")
    with pytest.raises(CorruptFile, match="zip"):
        load_model(tmp_path)
    with pytest.raises(JobFailed, match="cannot load"):
        LinearLearnerContainer().handler(tmp_path)
    with zipfile.ZipFile(tmp_path / "model_algo-1", "w") as archive:
        archive.writestr("readme", b"")
    with pytest.raises(NoFiles, match="mx-mod-0000"):
        load_model(tmp_path)
    for arrays in ({"x": np.ones(1, np.float32)}, {"fc0_weight": np.ones(3, np.float32)}, {"fc0_weight": np.ones((1, 2), np.float32), "fc0_bias": np.ones(2, np.float32)}):  # fmt: skip
        with zipfile.ZipFile(tmp_path / "model_algo-1", "w") as archive:
            archive.writestr("mx-mod-0000.params", write_params(arrays))
        with pytest.raises(CorruptFile, match="fc0"):
            load_model(tmp_path)


def test_a_zip_with_any_byte_changed(tmp_path):
    model = Model(predictor_type="regressor", loss="squared_loss", weights=np.float32([[1, 2]]), bias=np.float32([3]))
    path = save_model(model, tmp_path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        path.write_bytes(bytes(damaged))
        try:
            found = load_model(tmp_path)
        except DataError:
            continue
        np.testing.assert_array_equal(found.weights, model.weights)
        np.testing.assert_array_equal(found.bias, model.bias)

"""Batches as arrays of other libraries."""

from __future__ import annotations

import builtins
import time
from collections import UserDict
from typing import NamedTuple

import numpy as np
import pytest
from tests.loading.fakes import Numbers

from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import MissingExtra, SchemaMismatch, TransformError, UnsupportedData
from headrace.loading.handover import make_converter
from headrace.loading.loader import Loader


def test_numpy_is_left_alone():
    assert make_converter("numpy") is None


@pytest.mark.parametrize(("to", "package"), [("torch", "torch"), ("jax", "jax")])
def test_install_commands(to, package, monkeypatch):
    plain = builtins.__import__

    def without(name, *rest, **more):
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return plain(name, *rest, **more)

    monkeypatch.setattr("headrace._optional.importlib.import_module", without)
    with pytest.raises(MissingExtra, match=rf'pip install "headrace\[{to}\]"'):
        Loader(Numbers(3), 2, to=to)


@pytest.mark.torch
class TestTorch:
    @pytest.fixture
    def torch(self):
        import torch

        return torch

    @pytest.mark.parametrize("threads", [0, 2])
    def test_tensors_hold_what_the_arrays_hold(self, torch, threads):
        seen = []
        for batch in Loader(Numbers(50), 4, to="torch", threads=threads):
            assert (batch["i"].dtype, batch["row"].dtype) == (torch.int64, torch.float32)
            assert batch["row"][:, 0].tolist() == batch["i"].tolist()
            assert batch["name"].tolist() == [b"%d" % i for i in batch["i"].tolist()]
            seen += batch["i"].tolist()
        assert seen == list(range(50))

    @pytest.mark.parametrize("dtype", "?bhilqBHILQefdFD")
    def test_every_number_without_a_copy(self, torch, dtype):
        array = np.ones((3, 2), dtype)
        tensor = make_converter("torch")({"x": array})["x"]
        assert isinstance(tensor, torch.Tensor)
        array[1, 1] = 0
        assert tensor.tolist() == array.tolist()
        assert tensor.data_ptr() == array.ctypes.data

    def test_a_tensor_outlives_its_batch(self, torch):
        tensors = [batch["row"] for batch in Loader(Numbers(2000), 3, to="torch", threads=2)]
        assert torch.cat(tensors)[:, 0].tolist() == list(range(2000))

    @pytest.mark.parametrize(
        "array",
        [
            np.arange(4.0)[::-1],
            np.arange(1.0)[::-1],  # contiguous to NumPy, but no tensor has a reversed axis
            np.arange(4.0).astype(">f8"),
            np.frombuffer(b"12345678"),
        ],
    )
    def test_arrays_that_torch_cannot_share_are_copied(self, torch, array):
        tensor = make_converter("torch")({"x": array})["x"]
        assert tensor.tolist() == array.tolist()
        tensor[0] = 7
        assert array[0] != 7

    def test_ragged(self, torch):
        ragged = make_converter("torch")({"r": Ragged.from_list([[1.0, 2.0], [], [3.0]])})["r"]
        assert isinstance(ragged, Ragged)
        assert [row.tolist() for row in ragged] == [[1.0, 2.0], [], [3.0]]
        assert [row.tolist() for row in ragged[1:]] == [[], [3.0]]
        assert ragged.lengths.tolist() == [2, 0, 1]
        nested = torch.nested.nested_tensor_from_jagged(ragged.values, ragged.offsets)
        assert [row.tolist() for row in nested.unbind()] == [[1.0, 2.0], [], [3.0]]
        twice = make_converter("torch")(Ragged(Ragged.from_list([[1, 2], [3]]), np.array([0, 1, 2])))
        assert twice[0][0].tolist() == [1, 2]

    def test_values_that_are_not_tensors_stay(self, torch):
        sparse = pytest.importorskip("scipy.sparse").csr_array(np.eye(2))
        dates = np.array(["2026-01-01"], "M8[D]")
        records = np.zeros(2, [("a", "f4")])
        batch = make_converter("torch")({"s": sparse, "d": dates, "r": records, "n": 5})
        assert batch["s"] is sparse
        assert batch["d"] is dates
        assert batch["r"] is records
        assert batch["n"] == 5

    def test_inside_lists_and_tuples(self, torch):
        class Pair(NamedTuple):
            x: object
            y: str

        out = make_converter("torch")((np.ones(2), [np.ones((1, 2)), np.ones((2, 1))], Pair(np.ones(1), "y")))
        assert isinstance(out, tuple)
        assert [tuple(image.shape) for image in out[1]] == [(1, 2), (2, 1)]
        assert isinstance(out[2], Pair)
        assert isinstance(out[2].x, torch.Tensor)

    def test_other_mappings_become_dicts(self, torch):
        out = make_converter("torch")(UserDict(x=np.ones(2), y=UserDict(z=np.ones(1)), name="n"))
        assert type(out) is dict
        assert isinstance(out["x"], torch.Tensor)
        assert isinstance(out["y"]["z"], torch.Tensor)
        assert out["name"] == "n"

    def test_after_map_batch(self, torch):
        loader = Loader(Numbers(10), 5, to="torch", map_batch=lambda batch: (batch["row"] * 2, batch["i"] % 2))
        for row, parity in loader:
            assert isinstance(row, torch.Tensor)
            assert isinstance(parity, torch.Tensor)


def slow(batch):
    """As slow as it must be for threads and the consumer to share the work."""
    time.sleep(0.001)
    return batch


@pytest.mark.jax
class TestJax:
    @pytest.fixture
    def jax(self):
        import jax

        return jax

    def test_arrays_hold_what_the_arrays_hold(self, jax):
        seen = []
        for batch in Loader(Numbers(50), 4, to="jax", threads=2):
            assert isinstance(batch["row"], jax.Array)
            assert (batch["i"].dtype, batch["row"].dtype) == (np.int32, np.float32)
            assert np.asarray(batch["row"][:, 0]).tolist() == batch["i"].tolist()
            assert batch["name"].tolist() == [b"%d" % i for i in batch["i"].tolist()]
            seen += batch["i"].tolist()
        assert seen == list(range(50))

    def test_an_array_outlives_its_batch(self, jax):
        arrays = [batch["row"] for batch in Loader(Numbers(2000), 3, to="jax", threads=2)]
        assert np.concatenate(arrays)[:, 0].tolist() == list(range(2000))

    def test_ragged(self, jax):
        ragged = make_converter("jax")(Ragged.from_list([[1.0, 2.0], [], [3.0]], np.float32))
        assert isinstance(ragged.values, jax.Array)
        assert isinstance(ragged.offsets, np.ndarray)
        assert [row.tolist() for row in ragged] == [[1.0, 2.0], [], [3.0]]

    @pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1])
    def test_integers_that_do_not_fit_are_refused(self, jax, value):
        convert = make_converter("jax")
        assert convert(np.array([2**31 - 1, -(2**31)])).tolist() == [2**31 - 1, -(2**31)]
        with pytest.raises(UnsupportedData, match="jax_enable_x64"):
            convert(np.array([value]))
        with pytest.raises(UnsupportedData, match="uint32"):
            convert(np.array([1 << 32], np.uint64))

    @pytest.mark.parametrize("value", [1e300, -4e38, complex(0, 1e39)])
    def test_floats_that_would_become_infinite_are_refused(self, jax, value):
        convert = make_converter("jax")
        kept = [0.1, np.inf, -np.inf, float(np.finfo(np.float32).max) * (1 + 2**-26)]
        np.testing.assert_array_equal(np.asarray(convert(np.array(kept))), np.array(kept, np.float32))
        with pytest.raises(UnsupportedData, match="floats that fit into the float32 .*jax_enable_x64"):
            convert(np.array([np.nan, value, 1.0]))
        assert np.isnan(convert(np.array([np.nan, 1.0]))).tolist() == [True, False]

    @pytest.mark.parametrize("threads", [0, 2, None])
    def test_every_batch_has_the_settings_of_the_loop(self, jax, threads):
        source = {"i": np.arange(400) + 2**40, "x": np.arange(400.0)}
        one = jax.devices()[0]
        with jax.enable_x64(True), jax.default_device(one):
            loop = iter(Loader(source, 10, to="jax", threads=threads, map_batch=slow))
            batches = [next(loop)]
        batches += list(loop)  # decided when the loop began
        assert {str(batch[name].dtype) for batch in batches for name in "ix"} == {"int64", "float64"}
        assert {device for batch in batches for device in batch["i"].devices()} == {one}
        assert [int(i) - 2**40 for batch in batches for i in batch["i"]] == list(range(400))

    @pytest.mark.parametrize("threads", [0, 2, None])
    def test_functions_see_the_settings_of_the_loop(self, jax, threads):
        def make(batch):
            slow(batch)
            return str(jax.numpy.zeros(1, float).dtype)

        with jax.enable_x64(True):
            assert set(Loader({"i": np.arange(100)}, 5, threads=threads, map_batch=make)) == {"float64"}

    def test_values_that_are_not_arrays_stay(self, jax):
        dates = np.array(["2026-01-01"], "M8[D]")
        assert make_converter("jax")(dates) is dates
        assert make_converter("jax")(np.arange(3).astype(">i4")).tolist() == [0, 1, 2]

    def test_the_arrays_of_a_batch_are_put_in_one_call(self, jax, monkeypatch):
        batch = {
            "date": np.array(["2026-01-01"], "M8[D]"),
            "x": np.arange(6.0),
            "inner": {"i": np.arange(3), "swapped": np.arange(3).astype(">i4")},
            "masked": np.ma.masked_array([1.5, 2.5], [False, True]),
            "name": Strings.from_values(["a", "b"]),
            "scalar": np.array(7, np.uint8),
            "bits": np.array([True, False]),
        }
        convert = make_converter("jax")
        one_by_one = {name: convert(value) for name, value in batch.items()}
        calls = []
        put = jax.device_put
        monkeypatch.setattr(jax, "device_put", lambda value, device=None: calls.append(value) or put(value, device))
        together = convert(batch)
        assert list(together) == list(batch)
        assert [len(value) if isinstance(value, list) else 1 for value in calls] == [3, 2, 1]  # masked values alone
        assert together["date"] is batch["date"]
        assert together["name"] is batch["name"]
        for name in ("x", "masked", "scalar", "bits"):
            assert (together[name].dtype, together[name].shape) == (one_by_one[name].dtype, one_by_one[name].shape)
            np.testing.assert_array_equal(np.asarray(together[name]), np.asarray(one_by_one[name]))
        assert [together["inner"][name].tolist() for name in ("i", "swapped")] == [[0, 1, 2], [0, 1, 2]]

    def test_a_refused_array_of_a_batch_is_named(self, jax):
        with pytest.raises(UnsupportedData, match="feature 'b'.*jax_enable_x64"):
            make_converter("jax")({"a": np.arange(3), "b": np.array([1 << 40]), "c": np.arange(2)})


@pytest.mark.jax
def test_a_failing_hand_over_comes_in_its_place():
    class Wide(Numbers):
        def batch(self, indices):
            return {"i": indices + (1 << 31) - 6}

    batches = iter(Loader(Wide(20), 2, to="jax"))
    assert [next(batches)["i"].tolist() for _ in range(3)][-1] == [2**31 - 2, 2**31 - 1]
    with pytest.raises(UnsupportedData, match="found values from 2147483648 to 2147483649"):
        next(batches)


def test_a_transform_fails_before_the_hand_over():
    def fail(batch):
        raise ValueError("no")

    with pytest.raises(TransformError, match="failed with ValueError: no"):
        list(Loader(Numbers(20), 2, map_batch=fail))


@pytest.mark.parametrize(
    "to", [pytest.param("torch", marks=pytest.mark.torch), pytest.param("jax", marks=pytest.mark.jax)]
)
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_numbers_of_ml_dtypes_are_handed_over(to, name):
    pytest.importorskip(to)
    dtype = getattr(pytest.importorskip("ml_dtypes"), name)
    array = np.array([[1, 0.5], [2, 4]]).astype(dtype)
    found = make_converter(to)({"x": array, "turned": array.T[::-1], "rows": Ragged(array, np.array([0, 2]))})
    for column, expected in ((found["x"], array), (found["turned"], array.T[::-1]), (found["rows"].values, array)):
        assert not isinstance(column, np.ndarray)
        assert str(column.dtype).removeprefix("torch.") == name
        assert column.tolist() == expected.astype(float).tolist()


@pytest.mark.parametrize(
    ("to", "name"),
    [
        pytest.param("torch", "int4", marks=pytest.mark.torch),
        pytest.param("jax", "float6_e2m3fn", marks=pytest.mark.jax),
    ],
)
def test_numbers_that_a_library_lacks_are_refused(to, name):
    pytest.importorskip(to)
    array = np.array([1, 2]).astype(getattr(pytest.importorskip("ml_dtypes"), name))
    with pytest.raises(UnsupportedData, match=f"found {name}") as caught:
        make_converter(to)({"x": array})
    assert caught.value.where.feature == "x"


@pytest.mark.torch
def test_fields_of_records_become_tensors():
    pytest.importorskip("torch")
    records = np.array([(1, 2.5, 7), (3, 4.5, 8)], [("a", "i1"), ("b", "f8"), ("c", "i2")])
    found = make_converter("torch")({name: records[name] for name in "abc"})
    assert {name: column.tolist() for name, column in found.items()} == {"a": [1, 3], "b": [2.5, 4.5], "c": [7, 8]}


@pytest.mark.parametrize(
    "to", [pytest.param("torch", marks=pytest.mark.torch), pytest.param("jax", marks=pytest.mark.jax)]
)
def test_masked_values_do_not_appear(to):
    pytest.importorskip(to)
    found = make_converter(to)({"x": np.ma.array([1.0, 2.0], mask=[0, 1])})["x"]
    assert str(found.tolist()) == "[1.0, nan]"
    with pytest.raises(SchemaMismatch, match="masked ones of int64") as caught:
        make_converter(to)({"x": np.ma.array([1, 2], mask=[0, 1])})
    assert caught.value.where.feature == "x"


@pytest.mark.parametrize("device", ["mps", "xpu"])
def test_a_kind_of_gpu_that_torch_lacks(device):
    torch = pytest.importorskip("torch")
    module = torch.backends.mps if device == "mps" else torch.xpu
    if module.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(UnsupportedData, match=f"expected a device of the kind '{device}' .* Leave device= out"):
        Loader(Numbers(3), 1, to="torch", device=device)

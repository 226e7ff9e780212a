"""Columns that are decoded natively are those of pyarrow: values, dtypes, kinds and errors."""

import os
import pickle
import random
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.parquet.native_columns import (
    DAYS,
    NUMBERS,
    SCALARS,
    TEXTS,
    TIMES,
    compare,
    counted,
    described,
    only_pyarrow,
    outcome,
    portions,
    table_of,
)

import headrace as hr
from headrace.contracts.values import take_rows
from headrace.errors import CorruptFile
from headrace.formats.parquet import groups

GOLDEN = Path(__file__).parents[2] / "golden" / "parquet"
NO_NULLS = (0,)

USUAL = (*NUMBERS, *TEXTS, *TIMES, *DAYS)
OPTIONS = {
    "compression": ["none", "snappy", "zstd", "gzip"],
    "data_page_version": ["1.0", "2.0"],
    "data_page_size": [1, 20, 100, 1 << 20],
    "write_batch_size": [1, 3, 10, 1024],
    "row_group_size": [1, 3, 7, 1000],
    "dictionary_pagesize_limit": [10, 1 << 20],
    "write_page_checksum": [False, True],
    "write_page_index": [False, True],
    "store_schema": [False, True],
    "use_dictionary": [False, True],
    "version": ["1.0", "2.4", "2.6"],
}


@pytest.fixture(autouse=True)
def native(own_engines):
    """Native code comes first, whatever ``HEADRACE_ENGINES`` says."""


def any_kind(rng, depth=0):
    """Any type, mostly one that is decoded natively."""
    if rng.random() < 0.04:
        return rng.choice(SCALARS)
    if rng.random() < 0.5 or depth == 2:
        return rng.choice(USUAL)
    if rng.random() < 0.15:
        return pa.dictionary(rng.choice([pa.int8(), pa.int32()]), rng.choice([*NUMBERS, *TEXTS]))
    if depth and rng.random() < 0.8:
        return rng.choice(USUAL)
    field = pa.field(rng.choice(["item", "element", "e"]), any_kind(rng, depth + 1), rng.random() < 0.6)
    form = rng.random()
    if form < 0.45:
        return pa.list_(field)
    if form < 0.65:
        return pa.large_list(field)
    if form < 0.85:
        return pa.list_(field, rng.choice([1, 2, 3]))
    return pa.struct([field, ("other", rng.choice(USUAL))]) if form < 0.98 else pa.map_(pa.string(), pa.int32())


def any_schema(rng):
    """Types, and shares of nulls as :func:`table_of` takes them."""
    kinds = [any_kind(rng) for _ in range(rng.randint(1, 6))]
    shares = [rng.choice([*[NO_NULLS] * 4, (0.2, 0), (0.2, 0), (0, 0.2), (0.5, 0.5), (1,)]) for _ in kinds]
    return pa.schema([pa.field(f"c{at}", kind, rng.random() < 0.6) for at, kind in enumerate(kinds)]), shares


def any_options(schema, rng):
    found = {name: rng.choice(choices) for name, choices in OPTIONS.items()}
    if rng.random() < 0.25:
        return found | {"use_dictionary": False, "column_encoding": encodings_of(schema, rng) or None}
    if rng.random() < 0.3 and not any(pa.types.is_nested(field.type) for field in schema):
        found["use_dictionary"] = [name for name in schema.names if rng.random() < 0.5]
    return found


NUMBER_CODES = ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "PLAIN"]
TEXT_CODES = ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "PLAIN"]


def codes_of(kind):
    """The encodings, besides dictionaries, that pyarrow has for a type."""
    if kind in TEXTS:
        return TEXT_CODES
    if kind == pa.bool_():
        return ["RLE", "PLAIN"]
    if pa.types.is_floating(kind):
        return NUMBER_CODES[1:]
    return NUMBER_CODES if kind in USUAL else ["PLAIN"]


def encodings_of(schema, rng):
    """An encoding for each column, also within lists."""
    found = {}
    for field in schema:
        kind, path = field.type, field.name
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            kind, path = kind.value_type, f"{path}.list.element"
        if not pa.types.is_nested(kind) and not pa.types.is_dictionary(kind):
            found[path] = rng.choice(codes_of(kind))
    return found


def other_schema(schema, rng):
    """A schema that a user may give for a file with this one."""
    features = {}
    dtypes = ["float32", "float64", "int64", "int32", "int8", "uint8", "bool", "str", "bytes"]
    for name, feature in schema.items():
        dtype = rng.choice(dtypes) if rng.random() < 0.4 else feature.dtype
        shape = rng.choice([(), (None,), (1,), (2,), (3,)]) if rng.random() < 0.3 else feature.shape
        default = rng.choice([0, 1, -1, True, 2.5, float("nan"), "x", b"y", "2020-01-01"])
        try:
            features[name] = hr.Feature(dtype, shape, default=default if rng.random() < 0.6 else None)
        except (ValueError, TypeError):
            features[name] = hr.Feature(dtype, shape)
    return hr.Schema(features)


def read_many_ways(path, seed, **given_options):
    """Rows in order, at random, one by one, of single columns, and after pickling."""
    rng = random.Random(seed)
    found = portions(path, rng.choice([1, 4, 1000]), **given_options)
    try:
        source = hr.open(path, **given_options)
        rows = len(source)
    except hr.DataError:
        return found
    picked = [rng.randrange(rows) for _ in range(9)] if rows else []
    found.append(outcome(lambda: source.batch(picked)))
    found += [outcome(lambda row=row: source[row]) for row in picked[:2]]
    # Several at once, each of one column.
    parts = [source.select(name) for name in source.schema]
    rng.shuffle(parts)
    runs = [range(at, min(at + 5, rows)) for at in range(0, rows, 5)]
    found += [outcome(lambda part=part, run=run: part.batch(run)) for run in runs for part in parts]
    again = pickle.loads(pickle.dumps(source))
    return [*found, outcome(lambda: again.batch(picked))]


def test_columns_are_those_of_pyarrow(tmp_path_factory):
    seen = Counter()

    @given(st.integers(0, 1 << 32))
    def run(seed):
        rng, folder = random.Random(seed), tmp_path_factory.mktemp("ways")
        schema, shares = any_schema(rng)
        options = any_options(schema, rng)
        try:
            for file in range(rng.randint(1, 3)):
                table = table_of(schema, rng.choice([0, 1, 5, 13, 40, 40]), shares, rng)
                pq.write_table(table, folder / f"{file}.parquet", **options)
        except (pa.ArrowException, OSError):  # types and points in time that this version of the format has not
            return
        path = folder / "*.parquet"
        with pytest.MonkeyPatch.context() as patch, counted() as native:
            patch.setattr(groups, "MOST_ROWS", rng.choice([1, 3, 10, 1 << 17, 1 << 17]))
            patch.setattr(groups, "JOINED_ROWS", rng.choice([1, 10, 1 << 15]))
            compare(lambda: read_many_ways(path, seed), options)
            found = outcome(lambda: hr.open(path).schema)
            if isinstance(found, hr.Schema):
                other = other_schema(found, rng)
                compare(lambda: read_many_ways(path, seed, schema=other), options)
        seen["columns"] += len(schema)
        seen["native"] += len(native)

    run()
    assert seen["native"] > seen["columns"] // 3 > 50


def names_decoded(path, **given_options):
    """The names of the columns that are decoded natively, after comparing all."""
    with counted() as native:
        compare(lambda: portions(path, 7, **given_options))
    return set(native)


PLAIN_KINDS = {
    **{str(kind): kind for kind in (*NUMBERS, *TEXTS)},
    **{f"list {kind}": pa.list_(kind) for kind in (*NUMBERS, *TEXTS)},
    **{f"never null {kind}": pa.large_list(pa.field("item", kind, nullable=False)) for kind in NUMBERS},
    **{f"pair {kind}": pa.list_(kind, 2) for kind in NUMBERS},
    **{f"coded {kind}": pa.dictionary(pa.int32(), kind) for kind in TEXTS},
    **{str(kind): kind for kind in (*TIMES, *DAYS)},
    **{f"list {kind}": pa.list_(kind) for kind in (*TIMES, *DAYS)},
}


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_which_columns_are_decoded(tmp_path, compression, version, use_dictionary):
    """If nothing were, the other tests here would compare pyarrow with itself."""
    schema = pa.schema(PLAIN_KINDS.items())
    table = table_of(schema, 30, [NO_NULLS] * len(schema), random.Random(5))
    how = {"compression": compression, "data_page_version": version, "use_dictionary": use_dictionary}
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=11, data_page_size=4096, **how)
    assert names_decoded(tmp_path / "x.parquet") == set(PLAIN_KINDS)


@pytest.mark.parametrize("compression", ["none", "snappy"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("code", sorted({*NUMBER_CODES, *TEXT_CODES}))
def test_which_encodings_are_decoded(tmp_path, compression, version, code):
    """Those of all types that may have them, in lists, too."""
    kinds = {name: kind for name, kind in PLAIN_KINDS.items() if code in codes_of(getattr(kind, "value_type", kind))}
    kinds = {name: kind for name, kind in kinds.items() if not pa.types.is_dictionary(kind)}
    assert len(kinds) >= 8
    lists = {name for name, kind in kinds.items() if pa.types.is_nested(kind)}
    schema = pa.schema(kinds.items())
    table = table_of(schema, 300, [NO_NULLS] * len(schema), random.Random(5))
    pq.write_table(
        table,
        tmp_path / "x.parquet",
        column_encoding={f"{name}.list.element" if name in lists else name: code for name in kinds},
        use_dictionary=False,
        row_group_size=130,
        data_page_size=512,
        compression=compression,
        data_page_version=version,
    )
    footer = pq.read_metadata(tmp_path / "x.parquet").row_group(0)
    assert all(code in footer.column(number).encodings for number in range(len(kinds)))
    assert names_decoded(tmp_path / "x.parquet") == set(kinds)


def test_which_nulls_are_decoded(tmp_path):
    """Those of floats and points in time become NaN and NaT. Others need a default."""
    schema = pa.schema({str(kind): kind for kind in USUAL})
    table = table_of(schema, 40, [(0.3,)] * len(schema), random.Random(6))
    pq.write_table(table, tmp_path / "x.parquet", data_page_size=50, write_batch_size=5, row_group_size=17)
    found = hr.open(tmp_path / "x.parquet").schema
    assert names_decoded(tmp_path / "x.parquet") == {"float", "double", *map(str, (*TIMES, *DAYS))}
    given_schema = hr.Schema(
        {name: hr.Feature(feature.dtype, feature.shape, default=default_of(feature)) for name, feature in found.items()}
    )
    for name in found:
        alone = hr.Schema({name: given_schema[name]})
        assert names_decoded(tmp_path / "x.parquet", schema=alone) == {name}


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_which_nulls_of_lists_are_decoded(tmp_path, compression, version, use_dictionary):
    """A null in place of a list is an empty list. A null in a list is one as it would be outside."""
    schema = pa.schema({str(kind): pa.list_(kind) for kind in USUAL})
    how = {"compression": compression, "data_page_version": version, "use_dictionary": use_dictionary}
    for nulls in ((0.3, 0), (0, 0.3), (0.3, 0.3)):
        table = table_of(schema, 40, [nulls] * len(schema), random.Random(6))
        pq.write_table(table, tmp_path / "x.parquet", row_group_size=17, **how)
        found = hr.open(tmp_path / "x.parquet").schema
        kept = {"float", "double", *map(str, (*TIMES, *DAYS))} if nulls[1] else set(found)
        for name, feature in found.items():
            alone = hr.Schema({name: feature})
            assert names_decoded(tmp_path / "x.parquet", schema=alone) == {name} & kept
            alone = hr.Schema({name: hr.Feature(feature.dtype, feature.shape, default=default_of(feature))})
            assert names_decoded(tmp_path / "x.parquet", schema=alone) == {name}


def test_nulls_in_structs(tmp_path):
    """Of a struct, of a list in it, and of a value in that."""
    fields = {"f": pa.float32(), "l": pa.list_(pa.float64()), "n": pa.list_(pa.field("e", pa.int8(), nullable=False))}
    kinds = {"s": pa.struct(fields), "deep": pa.struct({"s": pa.struct(fields), "d": pa.date32()})}
    table = table_of(pa.schema(kinds), 60, [(0.3,), (0.2,)], random.Random(8))
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=17)
    assert names_decoded(tmp_path / "x.parquet") == {"s/f", "s/l", "s/n", "deep/s/f", "deep/s/l", "deep/s/n", "deep/d"}


@pytest.mark.parametrize("nullable", [True, False])
def test_nulls_of_lists_of_one_length(tmp_path, nullable):
    """pyarrow gives a null its values, too, and refuses every other length."""
    values = [[1.0, None], None, [2.0, 3.0], None]
    kind = pa.list_(pa.field("e", pa.float32()), 2)
    table = pa.table({"p": pa.array(values if nullable else [[1.0, None]] * 4, kind)})
    pq.write_table(table, tmp_path / "x.parquet")
    features = (
        *(hr.Feature("float32", (length,), default=default) for length in (2, 3, None) for default in (None, 5.0)),
        hr.Feature("float32", (2,), default=(7.0, 8.0)),
    )
    for feature in features:
        names = names_decoded(tmp_path / "x.parquet", schema=hr.Schema({"p": feature}))
        assert names == ({"p"} if not nullable and feature.shape != (3,) else set()), feature


def test_lists_of_another_length_than_their_type(tmp_path):
    """A footer says that they have two values each."""
    contents = []
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float32(), 2)):
        values = [[1, 2], [3, 4], [5, 6]] if pa.types.is_fixed_size_list(kind) else [[1, 2], [3], [4, 5, 6]]
        table = pa.table({"p": pa.array(values, kind)})
        pq.write_table(table, tmp_path / "x.parquet", compression="none", use_dictionary=False)
        contents.append((tmp_path / "x.parquet").read_bytes())
    ends = [len(content) - 8 - int.from_bytes(content[-8:-4], "little") for content in contents]
    assert ends[0] == ends[1]
    (tmp_path / "x.parquet").write_bytes(contents[0][: ends[0]] + contents[1][ends[0] :])
    for shape in ((None,), (2,), (3,)):
        feature = hr.Feature("float32", shape)
        assert not names_decoded(tmp_path / "x.parquet", schema=hr.Schema({"p": feature}))


def default_of(feature):
    if feature.is_text:
        return "none" if feature.dtype == "str" else b"none"
    if feature.numpy_dtype.kind == "b":
        return True
    return np.datetime64(5, np.datetime_data(feature.numpy_dtype)[0]) if feature.numpy_dtype.kind == "M" else 1


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.parquet")), ids=lambda path: path.stem)
def test_files_of_other_writers(path):
    """24 rows each: see ``tests/golden/parquet/README.md``."""
    with counted() as native:
        found = compare(lambda: outcome(lambda: hr.open(path).batch(range(24))))
        compare(lambda: read_many_ways(path, 1))
    columns = dict(found)
    rows = range(24)
    assert columns["i"] == described(np.array([row * 7 - 20 for row in rows], np.int32))
    assert columns["l"][-2] == np.array([row**3 for row in rows]).tobytes()
    assert columns["t"][-1] == [["", "ab", "xyz" * 6][row % 3] for row in rows]
    assert len(native) >= 3, native


def test_threads_read_the_same_table_at_once(tmp_path, monkeypatch):
    """In order, at random, and other columns, with large row groups in parts."""
    monkeypatch.setattr(groups, "MOST_ROWS", 37)
    monkeypatch.setattr(groups, "DIVIDED_BYTES", 1)
    monkeypatch.setattr(groups, "usable_cores", lambda: 3)
    rows = 1000
    schema = pa.schema(
        {"i": pa.int64(), "t": pa.string(), "l": pa.list_(pa.int16()), "f": pa.float32(), "n": pa.int8()}
    )
    table = table_of(schema, rows, [NO_NULLS, NO_NULLS, NO_NULLS, (0.3,), (0.1,)], random.Random(7))
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=400, data_page_size=200, write_batch_size=10)
    given_schema = hr.Schema(dict(hr.open(tmp_path / "x.parquet").schema) | {"n": hr.Feature("int8", default=0)})
    with only_pyarrow():
        whole = hr.open(tmp_path / "x.parquet", schema=given_schema).batch(range(rows))
    source = hr.open(tmp_path / "x.parquet", schema=given_schema)
    faults = []

    def read(seed):
        rng = np.random.default_rng(seed)
        names = [None, ["t", "i"], ["l"], None][seed % 4]
        part = source.select(*names) if names else source
        try:
            for turn in range(12):
                start = turn * 80 if seed % 2 else int(rng.integers(0, rows))
                indices = rng.integers(0, rows, 20) if seed % 3 == 0 else np.arange(start, min(start + 90, rows))
                for name, column in part.batch(indices).items():
                    assert described(column) == described(take_rows(whole[name], indices)), (seed, name, turn)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    with counted() as native:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        loaded = [batch for batch in hr.Loader(source, 64, threads=3, drop_last=False)]
    assert not faults, faults
    assert set(native) == {"i", "t", "l", "f", "n"}
    assert sum(len(batch["i"]) for batch in loaded) == rows
    assert np.array_equal(np.concatenate([batch["i"] for batch in loaded]), whole["i"])


@pytest.mark.parametrize("cut", [0, 100, 5000, 20_000])
@pytest.mark.parametrize("is_read", [True, False])
def test_a_file_that_shrinks(tmp_path, monkeypatch, cut, is_read):
    """After some of it has been read, and before. See also ``tests/formats/test_shrinking.py``."""
    monkeypatch.setattr(groups, "MOST_ROWS", 1000)
    path = tmp_path / "x.parquet"
    table = pa.table({"i": np.arange(20_000), "t": [str(row) for row in range(20_000)]})
    pq.write_table(table, path, compression="none", use_dictionary=False, data_page_size=4096)
    content = path.read_bytes()
    for library in (False, True):
        path.write_bytes(content)
        source = hr.open(path)
        assert len(source) == 20_000
        if is_read:
            assert source.batch([0])["i"].tolist() == [0]
        os.truncate(path, cut)
        with pytest.raises(CorruptFile, match="shrank"):
            if library:
                with only_pyarrow():
                    source.batch(range(20_000))
            else:
                source.batch(range(20_000))


@pytest.mark.parametrize("seed", range(60))
def test_fields_of_lists_of_structs(tmp_path, seed):
    rng = random.Random(seed)

    def maybe():
        return rng.random() < 0.6

    inner = [pa.field(f"f{at}", any_kind(rng, 1), maybe()) for at in range(rng.randint(1, 3))]
    if maybe():
        inner.append(
            pa.field("deep", pa.struct([pa.field("x", rng.choice(USUAL), maybe()), ("y", pa.int64())]), maybe())
        )
    item = pa.field("item", pa.struct(inner), maybe())
    lists = rng.choice([pa.list_(item), pa.large_list(item), pa.list_(item, 2), pa.list_(pa.list_(item))])
    kind = pa.struct([pa.field("l", lists, maybe())]) if maybe() else lists
    shares = rng.choice([NO_NULLS, NO_NULLS, (0.2, 0), (0, 0.2), (0.5, 0.5)])
    schema = pa.schema([pa.field("c", kind, maybe()), pa.field("n", pa.int64())])
    table = table_of(schema, rng.choice([0, 1, 5, 40]), [shares, NO_NULLS], rng)
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, **any_options(schema, rng))
    compare(lambda: read_many_ways(path, seed), table)


def test_fields_of_lists_of_structs_are_decoded_natively(tmp_path):
    rows = [
        {
            "m": [
                {"role": "a", "n": 1, "deep": {"x": 0.5}, "tags": ["t"]},
                {"role": "é", "n": 2, "deep": {"x": 1.5}, "tags": []},
            ]
        },
        {"m": []},
        {"m": None},
        {"m": [{"role": "", "n": 3, "deep": {"x": 2.5}, "tags": ["u", "v"]}]},
    ]
    pq.write_table(pa.Table.from_pylist(rows * 5), tmp_path / "x.parquet", row_group_size=3)
    with counted() as names:
        found = compare(
            lambda: [described(column) for column in hr.open(tmp_path / "x.parquet").batch(range(20)).values()]
        )
    assert names.keys() == {"m/role", "m/n", "m/deep/x"}  # m/tags has lists in lists
    batch = hr.open(tmp_path / "x.parquet").batch([3, 1, 2, 0])
    assert batch["m/role"].to_list() == [[""], [], [], ["a", "é"]]
    assert batch["m/deep/x"].to_list() == [[2.5], [], [], [0.5, 1.5]]
    assert batch["m/tags"].to_list() == [[["u", "v"]], [], [], [["t"], []]]
    assert len(found) == 4
    pq.write_table(pa.Table.from_pylist([*rows, {"m": [{"n": 1}, None]}]), tmp_path / "y.parquet")
    with pytest.raises(hr.SchemaMismatch, match=r"found none.*record 4.*'m/role'"):
        hr.open(tmp_path / "y.parquet")[4]
    given = {"m/role": hr.Feature("str", (None,), default="?")}
    assert hr.open(tmp_path / "y.parquet", schema=given)[4]["m/role"].tolist() == ["?", "?"]

"""Reading options that not every format can honour: one rule for all."""

import pickle

import numpy as np
import pytest
from tests.writing import pairs
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.app import app
from headrace.contracts.records import is_table
from headrace.errors import UnsupportedData
from headrace.formats import registry
from headrace.formats.framed.records import FramedRecords
from headrace.formats.open import open_records
from headrace.formats.registry import format_named

HONOURED = {
    "tfrecord": {"on_corrupt", "verify"},
    "array_record": {"on_corrupt", "verify"},
    "recordio": {"on_corrupt", "verify"},
    "riegeli": {"verify"},
    "csv": {"on_corrupt", "verify"},
    "jsonl": {"on_corrupt"},
    "parquet": {"verify"},
    "npz": {"verify"},
    "npz_folder": {"verify"},
    "npy": set(),
    "npy_folder": set(),
    "image_folder": set(),
    "avro": set(),
    "webdataset": set(),
}
OTHER = {"on_corrupt": "skip", "verify": False}
DEFAULT = {"on_corrupt": "raise", "verify": True}


def test_declared_options_of_each_format():
    assert {name: set(format_named(name).options) for name in registry.OWN} == HONOURED


@pytest.fixture(scope="module", params=pairs.formats())
def written(request, tmp_path_factory):
    path = pairs.write(tmp_path_factory.mktemp(request.param), request.param, request.param)
    return request.param, str(path)


@pytest.mark.parametrize("option", OTHER)
def test_the_others_are_refused_everywhere(written, option, tmp_path):
    name, path = written
    options = {option: OTHER[option]}
    assert len(hr.open(path, format=name, decode=False, **{option: DEFAULT[option]})) == pairs.ROWS
    opened = {
        "open": lambda: hr.open(path, format=name, decode=False, **options),
        "records": lambda: hr.records(path, format=name, **options),
        "open_records": lambda: open_records(path, format=name, **options),
    }
    if option == "on_corrupt":
        opened["convert"] = lambda: hr.convert(path, tmp_path / "y.tfrecord", allow_loss=True, **options)
    for how, attempt in opened.items():
        if option in HONOURED[name]:
            if how == "open":
                assert len(attempt()) == pairs.ROWS
            continue
        match = rf"expected {option}={DEFAULT[option]!r}, .*found {option}={OTHER[option]!r} - at "
        with pytest.raises(UnsupportedData, match=match):
            attempt()
    assert not (tmp_path / "y.tfrecord").exists()
    if option == "on_corrupt":
        for command in (["head", path], ["inspect", path], ["schema", path]):
            result = CliRunner().invoke(app, [*command, "--format", name, "--skip-corrupt"])
            if "No such option" not in result.output:
                assert (result.exit_code == 0) == (option in HONOURED[name]), result.output


def test_compression_of_whole_files_is_refused_where_a_format_has_none(written):
    name, path = written
    assert len(hr.open(path, format=name, decode=False, compression="none")) == pairs.ROWS
    if not registry.format_named(name).compressible:
        with pytest.raises(
            UnsupportedData, match=rf"compression=None, the only value that {name} supports, found .*'gzip'"
        ):
            hr.open(path, format=name, compression="gzip")


@pytest.mark.parametrize("codec", ["raw", "example", "bogus"])
def test_codecs_are_refused_where_there_are_no_payloads(written, codec):
    name, path = written
    opened = open_records(path, format=name)
    holds_columns = is_table(opened) and not isinstance(opened, FramedRecords)
    for call in (hr.open, hr.stats, hr.verify):
        if holds_columns:
            with pytest.raises(
                UnsupportedData, match=f"codec=None, the only value that {name} supports, found .*{codec}"
            ):
                call(path, format=name, codec=codec)
        elif codec == "bogus":
            with pytest.raises(
                UnsupportedData, match="expected codec 'example', 'raw' or 'sagemaker_record', found 'bogus'"
            ):
                call(path, format=name, codec=codec)


@pytest.mark.parametrize(("option", "value"), [("on_corrupt", "ignore"), ("verify", "no")])
def test_values_that_no_format_knows(written, option, value):
    with pytest.raises((TypeError, ValueError), match=f"{option} must be .* got '{value}'"):
        hr.open(written[1], format=written[0], **{option: value})


def test_an_open_source_takes_no_options_of_opening(tmp_path):
    hr.write(tmp_path / "x.npy", {"x": np.zeros(3)})
    source = hr.open(tmp_path / "x.npy")
    with pytest.raises(ValueError, match=r"give it to hr.open"):
        hr.convert(source, tmp_path / "y.npy", on_corrupt="skip")
    with pytest.raises(hr.NoSuchFeature):
        hr.convert(source, tmp_path / "y.npy", columns=["y"])
    two = hr.ColumnSource({"x": np.arange(3), "y": np.arange(3)})
    hr.convert(two, tmp_path / "y.parquet", columns=["y"])
    assert list(hr.open(tmp_path / "y.parquet").schema) == ["y"]


# ------------------------------------------------------------------------------------------------ JSON Lines that skips

BAD = [b'{"n": 1', b"[1]", b'{"n": 1} {"n": 2}', b'{"n": "\xff"}', b"{" * 5000, b"3", b'{"n":\t1}}', b"nul"]


@pytest.mark.parametrize("gap", [0, 1, 700])
def test_lines_that_are_not_objects_are_left_out(tmp_path, gap):
    lines, sound = [], []
    for bad in BAD:
        lines.append(bad)
        for _ in range(gap):
            sound.append(len(lines))
            lines.append(b'{"n": %d, "t": "x"}' % len(lines))
    sound.append(len(lines))
    lines.append(b'{"n": %d, "t": "x"}' % len(lines))
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\n".join(lines))
    source = hr.open(path, on_corrupt="skip")
    assert [int(example["n"]) for example in source] == sound
    assert source.skipped == hr.open(path, on_corrupt="skip").skipped
    assert source.skipped.records == len(BAD)
    assert source.skipped.bytes == sum(len(bad) + 1 for bad in BAD)
    assert [source.where(at).record for at in range(len(sound))] == sound
    assert sorted(int(n) for b in hr.Loader(source, 64, shuffle=True, threads=2) for n in b["n"]) == sound
    again = pickle.loads(pickle.dumps(source))
    assert again.batch([-1])["n"].tolist() == sound[-1:]
    done = hr.convert(path, tmp_path / "y.parquet", on_corrupt="skip")
    assert (done.examples, done.skipped) == (len(sound), len(BAD))
    given = hr.open(path, on_corrupt="skip", schema={"n": hr.Feature("int32")})
    assert given.batch(np.arange(len(sound)))["n"].tolist() == sound
    assert len(hr.verify(path).faults) >= 1
    with pytest.raises(hr.DataError):
        list(hr.open(path))


def test_other_types_are_not_damage(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"n": 1}\n' * 300 + '{"n": "x"}\n')
    source = hr.open(tmp_path / "x.jsonl", on_corrupt="skip")
    assert (len(source), source.skipped.records) == (301, 0)
    with pytest.raises(hr.SchemaMismatch, match="record 300"):
        source[300]

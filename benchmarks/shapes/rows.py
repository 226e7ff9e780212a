"""The rows of the sweep: which shapes, which systems read them, and what is required."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compare.results import Target, faster
from benchmarks.compare.tasks import System
from benchmarks.shapes.shape import Shape

ROOT = Path(__file__).resolve().parents[2]
OURS, ALONE, JOINED = "Headrace", "Headrace, threads=0", "Headrace, one file"
AGAIN = "Headrace, threads=0 again"  # shows how much two measurements of the same differ
OPENED = "Headrace, opened before"
TF, HF, BARE, FFCV = "tf.data", "HF datasets", "simplejpeg, two threads", "FFCV"
PANDAS, ARROW_CSV, ARROW_JSON, ARROW_PARQUET = "pandas", "PyArrow CSV", "PyArrow JSON", "PyArrow Parquet"
JSON, NUMPY, ARRAY_RECORD = "json.loads", "NumPy", "array_record"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeSystem(System):
    """A system of `benchmarks.shapes.systems`. Peers have an environment of their own, which need not hold Headrace."""

    @property
    def python(self) -> str:
        """The interpreter that runs it: for a peer that of ``HEADRACE_PEERS_VENV`` or ``.venv-peers``, if it is there."""
        if self.role == "headrace":
            return sys.executable
        folder = os.environ.get("HEADRACE_PEERS_VENV") or str(ROOT / ".venv-peers")
        peers = Path(f"{folder}-{self.environment}" if self.environment else folder, "bin", "python")
        return str(peers) if self.environment or peers.exists() else sys.executable


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        name: A short name, or the text of the shape.
        shape: What is read.
        targets: What is required.
    """

    name: str
    shape: Shape
    targets: tuple[Target, ...] = ()

    @property
    def systems(self) -> tuple[ShapeSystem, ...]:
        """Headrace and its peers."""
        more = {"loader_joined": JOINED} if any(JOINED in target.text for target in self.targets) else {}
        more |= {"loader_opened": OPENED} if self.shape.format in ("csv", "jsonl") else {}
        return (*systems_of(self.shape), *(_headrace(name, function) for function, name in more.items()))


def _headrace(name: str, function: str) -> ShapeSystem:
    return ShapeSystem(name=name, role="headrace", start=f"ours:{function}")


def _peer(name: str, start: str, environment: str = "") -> ShapeSystem:
    return ShapeSystem(name=name, role="peer", start=start, environment=environment)


def systems_of(shape: Shape) -> tuple[ShapeSystem, ...]:
    """Headrace and its peers over this shape."""
    ours = "records" if shape.format == "array_record" else "loader"
    return (_headrace(OURS, ours), *_peers(shape))


def _peers(shape: Shape) -> Iterator[ShapeSystem]:
    if shape.format == "tfrecord":
        yield _peer(TF, "tf_data:crops" if shape.crop else "tf_data:examples")
        if shape.crop:
            yield _peer(FFCV, "images:ffcv_crops", "ffcv")
        elif shape.image and shape.image.kind in "jp":
            yield _peer(BARE, "images:bare")
    elif shape.format in ("csv", "jsonl"):
        yield from _text_peers(shape)
    elif shape.format == "parquet":
        yield _peer(HF, "tables:hugging_face")
        if not shape.shuffled:
            yield _peer(ARROW_PARQUET, "tables:pyarrow_parquet")
    else:
        starts = {"sequence": (TF, "tf_data:sequences"), "npy": (NUMPY, "arrays:numpy_rows")}
        yield _peer(*starts.get(shape.format, (ARRAY_RECORD, "arrays:array_record")))


def _text_peers(shape: Shape) -> Iterator[ShapeSystem]:
    if shape.format == "csv":
        yield _peer(PANDAS, "tables:pandas_csv")
        yield _peer(ARROW_CSV, "tables:pyarrow_csv")
        return
    yield _peer(JSON, "tables:json_loads")
    yield _peer(HF, "tables:hugging_face")
    yield _peer(ARROW_JSON, "tables:pyarrow_json")


def _row(name: str, shape: str, *wanted: tuple[str, float]) -> Row:
    targets = tuple(
        Target(text=f"of {JOINED}" if peer == JOINED else f"times {peer}", required=least, measure=faster(OURS, peer))
        for peer, least in wanted
    )
    return Row(name=name, shape=Shape.parse(shape), targets=targets)


_CLICKS = "13f32+26s8+1i1"
_TOKENS = "1i<50000[20-500]"
_PHOTOS = "1j75-95[375x500]+1k batch=64"
NAMED = (
    _row("clicks", f"tfrecord {_CLICKS}", (TF, 6)),
    _row("clicks-shuffled", f"tfrecord {_CLICKS} shuffled", (TF, 8)),
    _row("clicks-parquet", f"parquet {_CLICKS}", (HF, 5)),
    _row("csv", "csv 1i31+2f64+2q20+1t rows=200000", (PANDAS, 1.5), (ARROW_CSV, 1.2)),
    _row("jsonl", "jsonl 1w10-60+1i16[5-60]+1f64", (JSON, 4), (HF, 2)),
    _row("tokens", f"tfrecord {_TOKENS}", (TF, 8)),
    _row("tokens-shuffled", f"tfrecord {_TOKENS} shuffled", (TF, 15)),
    _row("sequence", "sequence 1i31+1f32[5-60x16] batch=64", (TF, 10)),
    _row("photos", f"tfrecord {_PHOTOS}", (TF, 1.8), (BARE, 1.6)),
    _row("photos-progressive", f"tfrecord {_PHOTOS.replace('j', 'p')}", (BARE, 1.2)),
    _row("photos-cropped", f"tfrecord {_PHOTOS} shuffled crop=224", (TF, 3), (FFCV, 1.5)),
    _row("chunks", "array_record 1b60000 batch=64 shuffled group=16", (ARRAY_RECORD, 4)),
    _row("chunks-one", "array_record 1b60000 batch=1 shuffled group=16", (ARRAY_RECORD, 3)),
    _row("npy-shuffled", "npy 1u8[64x64x3] shuffled rows=40000", (NUMPY, 1.0)),
    _row("shards", "tfrecord 1f32[784]+1i3 shards=1000 rows=60000", (JOINED, 0.95)),
    _row("shards-shuffled", "tfrecord 1f32[784]+1i3 shuffled shards=1000 rows=60000", (JOINED, 0.95)),
)
"""Shapes that users asked for, with what is required of them."""

_SWEPT = """
tfrecord 1f32
tfrecord 1f32 batch=4096 shuffled
tfrecord 1i7+1s20 batch=1
tfrecord 10f32 batch=16
tfrecord 50f32+50i14 shuffled
tfrecord 200f32
tfrecord 200i31 batch=1024 shuffled
tfrecord 100s10~50
tfrecord 1f32[4096]
tfrecord 1f32[250000] batch=4
tfrecord 1i7[100]
tfrecord 1i14[100] shuffled
tfrecord 1i31[100]
tfrecord 1i63[100] batch=64
tfrecord 1n31[50] shuffled
tfrecord 1i1[2000] batch=32
tfrecord 1f32[0-100] shuffled
tfrecord 3i<32000[1-2000] batch=32
tfrecord 2f32[3-40]+1i14
tfrecord 1s3 batch=1024
tfrecord 2s100+1i31 shuffled
tfrecord 1w1000-3000 batch=64
tfrecord 1s5-20[0-10]+1f32
tfrecord 5s12~20+5s12 shuffled
tfrecord 1b100000+1i14 batch=32
tfrecord 1b2000 shuffled shards=10
tfrecord 20f32+5i31+5s8 shuffled shards=100
tfrecord 1i<50000[20-500] shuffled shards=1000
tfrecord 1f32[784]+1i3 batch=4096
sequence 3i14+2i31[1-20] batch=256
sequence 1s10+1s8[0-30] batch=64 shuffled
sequence 1f32[100-300x64] batch=16
tfrecord 1j90[32x32]+1k
tfrecord 1j90[64x64]+1k shuffled
tfrecord 1j85[224x224]+1k batch=128 shuffled
tfrecord 1j90[1200x1600]+1k batch=4
tfrecord 1j90[4000x6000]+1k batch=2
tfrecord 1p85[224x224]+1k batch=64
tfrecord 1g[28x28]+1k shuffled
tfrecord 1g[256x256]+1k batch=32
array_record 1b100 batch=128 shuffled
array_record 1d1000 batch=256 shuffled group=4
array_record 1d1000 batch=64 shuffled group=256
array_record 1d20000 batch=64 shuffled group=64
array_record 1b200000 batch=16 shuffled
array_record 1d300000 batch=16 shuffled shards=10
array_record 1b2000000 batch=4 shuffled shards=10
array_record 1d3000 batch=1 shuffled
array_record 1d1000 batch=128 group=64
npy 1f32 batch=1024 shuffled
npy 1f32[784] batch=128
npy 1f32[784] batch=32 shuffled
npy 1f32[784] batch=4096 shuffled
npy 1u8[224x224x3] batch=32 shuffled
npy 1i63[16] shuffled
csv 20f64
csv 5i31+5i7 batch=1024
csv 10s8~20+2f64
csv 30s3
csv 1s8 rows=2000000
csv 1w200-500+1i7
csv 100i14
jsonl 5f64+5i31
jsonl 1w500-2000+1i7 batch=64
jsonl 20s8+1f64[8]
jsonl 1s4-9[2-8]~4+1w20-300[2-8]+1k batch=64 objects
jsonl 1w20000-50000 batch=16
jsonl 1f64[5000] batch=16
parquet 20f32 batch=1024
parquet 5i7+5i15+5i31+5i63 shuffled
parquet 10s8~100+1i31 shuffled
parquet 1w100-1000+1i31 batch=64
parquet 1w5000-20000~5+1k
parquet 1w300-2000~40+1k shuffled
parquet 1f32[1000]~1+1k rows=100000
parquet 1i<50000[20-500]
parquet 1f32[128]+1i31 shuffled
parquet 1f64[0-20]+1i14[0-20]+1s8~20 shuffled objects
"""
SWEPT = tuple(Row(name=text, shape=Shape.parse(text)) for text in _SWEPT.split("\n") if text)
"""Along every axis: the number and kind of columns, sizes of values, ragged lengths, batches, chunks and shards."""

_LARGE = """
parquet 1f32[1000] rows=100000
parquet 1i<50000[20-500] rows=307690
parquet 13f32+26s8+1i1 rows=1000000
"""
LARGE = tuple(Row(name=text, shape=Shape.parse(text)) for text in _LARGE.split("\n") if text)
"""Tables of which Headrace keeps nothing between epochs. `growth` leaves them out."""

_COLD = """
clicks
clicks-parquet
csv
jsonl
photos
chunks
chunks-one
npy-shuffled
shards
shards-shuffled
tfrecord 1f32[4096]
tfrecord 1b100000+1i14 batch=32
tfrecord 1b2000 shuffled shards=10
tfrecord 1i<50000[20-500] shuffled shards=1000
tfrecord 20f32+5i31+5s8 shuffled shards=100
array_record 1b2000000 batch=4 shuffled shards=10
array_record 1b200000 batch=16 shuffled
array_record 1d1000 batch=128 group=64
npy 1f32[784] batch=128
npy 1u8[224x224x3] batch=32 shuffled
csv 1w200-500+1i7
jsonl 1w500-2000+1i7 batch=64
parquet 1w100-1000+1i31 batch=64
parquet 1f32[1000] rows=100000
parquet 1f32[128]+1i31 shuffled
"""
COLD = tuple(filter(None, _COLD.split("\n")))
"""The rows that are also read from the disk: most formats, in one file and in many, in order and shuffled."""

ROWS = {row.name: row for row in (*NAMED, *SWEPT, *LARGE)}


def find_row(name: str) -> Row:
    """A row by its name, or any shape by its text (ValueError if it is neither)."""
    return ROWS.get(name) or Row(name=str(Shape.parse(name)), shape=Shape.parse(name))


def random_rows(count: int, seed: int) -> list[Row]:
    """Random shapes: points drawn from all axes."""
    rng = random.Random(seed)
    return [Row(name=str(shape), shape=shape) for shape in (_random_shape(rng) for _ in range(count))]


def _random_shape(rng: random.Random) -> Shape:
    format = rng.choices(
        ("tfrecord", "sequence", "array_record", "npy", "csv", "jsonl", "parquet"), (8, 1, 2, 2, 2, 2, 3)
    )[0]
    if format == "tfrecord" and rng.random() < 0.3:
        columns = _random_image(rng)
    elif format == "array_record":
        columns = f"1{rng.choice('bd')}{_log(rng, 20, 2_000_000)}"
    elif format == "npy":
        columns = (
            _random_numbers(rng, 1, 20_000) if rng.random() < 0.7 else f"1{rng.choice('ut')}[{_log(rng, 1, 50_000)}]"
        )
    else:
        columns = "+".join(_random_columns(rng, format))
    text = f"{format} {columns}"
    most = max(1, min(rng.choice((4096, 4096, 50_000)), int(16e6 / Shape.parse(text).row_bytes)))
    # Tables of text are beside libraries that return one whole table.
    text += f" batch={_log(rng, 64 if format in ('csv', 'jsonl') else 1, most)}"
    if format not in ("csv", "jsonl", "sequence") and rng.random() < 0.5:
        text += " shuffled"
    if format == "tfrecord" and rng.random() < 0.3:
        text += f" shards={_log(rng, 2, max(2, min(1000, int(64e6 / Shape.parse(text).row_bytes))))}"
    if format == "array_record":
        text += f" group={2 ** rng.randint(0, 8)}"
    return Shape.parse(text)


_SINGLE = ("tfrecord", "sequence")
"""Formats that store floats of 32 bits only."""


def _random_columns(rng: random.Random, format: str) -> Iterator[str]:
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.5:
            count = _log(rng, 1, rng.choice((60, 60, 500)))
            yield _random_numbers(rng, count, 200 if format != "csv" else 1, narrow=format in _SINGLE)
        else:
            # pandas takes empty fields of CSV for missing ones.
            yield _random_text(rng, _log(rng, 1, 30), least=0 if format != "csv" else 1)
    if format in ("tfrecord", "jsonl", "parquet", "sequence") and rng.random() < 0.5:
        low = rng.choice((0, rng.randint(1, 30)))  # rows without values
        yield f"{rng.randint(1, 3)}{rng.choice(('i7', 'i16', 'i31', 'f32' if format in _SINGLE else 'f64'))}[{low}-{low + _log(rng, 1, 400)}]"


def _random_numbers(rng: random.Random, count: int, longest: int, *, narrow: bool = True) -> str:
    kind = rng.choice(("f32" if narrow else "f64", "i1", "i7", "i14", "i31", "i63", "n31"))
    length = _log(rng, 1, max(1, longest // count)) if rng.random() < 0.5 else 1
    distinct = f"~{_log(rng, 1, 100)}" if rng.random() < 0.2 else ""  # one value for all rows, too
    return f"{count}{kind}{f'[{length}]' if length > 1 else ''}{distinct}"


def _random_text(rng: random.Random, count: int, least: int) -> str:
    low = _log(rng, 1, 2000 // count)
    high = low + _log(rng, 1, low)
    low = rng.choice((low, low, low, least))
    distinct = f"~{_log(rng, 1, 10_000)}" if rng.random() < 0.4 else ""
    return f"{count}{rng.choice('sw')}{low}-{high}{distinct}"


def _random_image(rng: random.Random) -> str:
    height = _log(rng, 8, 2400)
    width = max(8, round(height * rng.choice((0.75, 1, 4 / 3, 1.5))))
    kind = rng.choice(("j", "j", "j", "p", "g"))
    return f"1{kind}{'' if kind == 'g' else rng.randint(60, 97)}[{height}x{width}]+1k"


def _log(rng: random.Random, low: int, high: int) -> int:
    """A number whose logarithm is uniform."""
    return max(low, min(high, round(low * (max(high, low) / low) ** rng.random())))

"""Our Zstandard, GZIP, JPEG and PNG decoders against the libraries: ``python -m benchmarks.micro.engines [zstd gzip jpeg png]``.

Each line is one kind of data: the least time of our way and of the library's, on the clock and of the processor, and the ratio library / ours.
Both ways take turns in one process, through the calls that users make (``HEADRACE_ENGINES`` switches them), so that a loaded machine slows both.
GZIP is also inflated by ``rapidgzip``, on two threads, if it is installed.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import importlib.util
import io
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

import headrace as hr
from headrace.codecs.images.decode import ImageDecoder
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions
from headrace.io.cache.inflate import Inflater
from headrace.io.engines import SETTING, engines

BATCH, WIDTH = 128, 784
WORDS = b"the of and to a in that is was he for it with as his on be at by this had not are but from or have an they which one you".split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of data.

    Attributes:
        engine: Which decoder.
        name: What is decoded.
        read: Decodes it by the engines of the process.
        others: The same by other libraries.
    """

    engine: str
    name: str
    read: Callable[[], object]
    others: dict[str, Callable[[], object]]


@dataclass(slots=True)
class Least:
    """The least times of some calls, in seconds."""

    wall: float = float("inf")
    processor: float = float("inf")

    def time(self, call: Callable[[], object]) -> None:
        """Call once more."""
        wall, processor = perf_counter(), process_time()
        call()
        self.processor = min(self.processor, process_time() - processor)
        self.wall = min(self.wall, perf_counter() - wall)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", nargs="*", help="zstd, gzip, jpeg, png; all by default")
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder), set(chosen.engine)):
            print(line(case, measure(case, chosen.rounds)), flush=True)


def cases(folder: Path, wanted: set[str]) -> Iterator[Case]:
    """Those of the wanted engines; of all, if none is named."""
    for name, made in (("zstd", zstd_cases), ("gzip", gzip_cases), ("jpeg", jpeg_cases), ("png", png_cases)):
        if not wanted or name in wanted:
            yield from made(folder)


def measure(case: Case, rounds: int) -> dict[str, Least]:
    """The least times of each way."""
    found = {name: Least() for name in ("own", "library", *case.others)}
    for _ in range(rounds):
        for name, least in found.items():
            use("library" if name == "library" else "own")
            least.time(case.others.get(name, case.read))
    use("own")
    return found


def use(choice: str) -> None:
    """Decode by these engines from now on."""
    os.environ[SETTING] = choice
    engines.cache_clear()


def line(case: Case, found: dict[str, Least]) -> str:
    """Times and ratios, in one line."""
    own = found["own"]
    parts = [
        f"{name} {least.wall * 1e3:8.2f} ms, cpu {least.processor * 1e3:8.2f}"
        + ("" if least is own else f" ({least.wall / own.wall:.2f} x, cpu {least.processor / own.processor:.2f} x)")
        for name, least in found.items()
    ]
    return f"{case.engine:5}{case.name:32}" + " | ".join(parts)


def zstd_cases(folder: Path) -> Iterator[Case]:
    """Records of ArrayRecord files, one in each chunk, at random."""
    rng = np.random.default_rng(0)
    for name, payloads in (
        ("3 KB of random floats", [rng.random(WIDTH, np.float32).tobytes() for _ in range(4000)]),
        ("3 KB of text", [text(rng, 600) for _ in range(4000)]),
    ):
        path = folder / f"{name}.array_record"
        hr.write(path, {"x": np.array(payloads, object)})
        indices = rng.integers(0, len(payloads), 8 * BATCH).reshape(8, BATCH)
        readers: dict[str, Any] = {}

        def read(path: Path = path, indices: Any = indices, readers: dict[str, Any] = readers) -> None:
            records = readers.setdefault(engines().choice, None) or hr.records(path)
            readers[engines().choice] = records
            for batch in indices:
                records.spans(batch).to_bytes()

        yield Case(engine="zstd", name=f"{8 * BATCH} x {name}", read=read, others={})


def gzip_cases(folder: Path) -> Iterator[Case]:
    """TFRecord files in GZIP, from their first byte to their last."""
    rng = np.random.default_rng(0)
    noise = rng.normal(128, 30, (4000, 3072)).clip(0, 255).astype(np.uint8)
    shapes: dict[str, dict[str, Any]] = {
        "3 KB of random floats": {"x": rng.random((8000, WIDTH), np.float32)},
        "64 bytes of random floats": {"x": rng.random((100_000, 16), np.float32)},
        "3 KB of noise of 8 bits": {"x": np.array([row.tobytes() for row in noise], object)},
        "text": {"x": np.array([text(rng, 150) for _ in range(20_000)], object)},
    }
    for name, columns in shapes.items():
        path = folder / f"{name}.tfrecord.gz"
        hr.write(path, columns)
        with gzip.open(path) as file:
            size = sum(len(part) for part in iter(lambda file=file: file.read(1 << 20), b""))

        def read(path: Path = path, size: int = size) -> None:
            assert sum(map(len, Inflater(str(path), "gzip"))) == size

        others = {} if importlib.util.find_spec("rapidgzip") is None else {"rapidgzip": by_rapidgzip(path, size)}
        yield Case(engine="gzip", name=f"{size >> 20} MB: {name}", read=read, others=others)


def by_rapidgzip(path: Path, size: int) -> Callable[[], None]:
    """Inflates a file by that library."""
    library = importlib.import_module("rapidgzip")

    def read() -> None:
        with library.open(str(path), parallelization=2) as file:
            assert sum(map(len, iter(lambda: file.read(1 << 20), b""))) == size

    return read


def jpeg_cases(_folder: Path) -> Iterator[Case]:
    """Batches of pictures as a codec decodes them."""
    for side, quality in ((64, 90), (256, 90), (256, 60)):
        images = [encoded(picture(side, seed), "JPEG", quality=quality) for seed in range(32)]
        yield image_case("jpeg", f"32 of {side} x {side}, quality {quality}", images, (side, side, 3))


def png_cases(_folder: Path) -> Iterator[Case]:
    """The same, and small grey ones."""
    small = [encoded(picture(28, seed)[:, :, 0], "PNG") for seed in range(BATCH)]
    yield image_case("png", f"{BATCH} of 28 x 28, grey", small, (28, 28, 1))
    large = [encoded(picture(256, seed), "PNG") for seed in range(8)]
    yield image_case("png", "8 of 256 x 256, colours", large, (256, 256, 3))


def image_case(engine: str, name: str, images: list[bytes], shape: tuple[int, ...]) -> Case:
    """Decoding of images of one shape."""
    decoder = ImageDecoder(Feature("uint8", shape, encoding=engine), ImageOptions(), exact=True)
    return Case(engine=engine, name=name, read=lambda: decoder.images(images), others={})


def text(rng: np.random.Generator, words: int) -> bytes:
    """Some words."""
    return b" ".join(WORDS[i] for i in rng.integers(0, len(WORDS), words).tolist())


def picture(side: int, seed: int) -> Any:
    """Smooth shapes and some noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] / side
    waves = [np.sin(x * rng.uniform(3, 20) + y * rng.uniform(3, 20) + rng.uniform(0, 6)) for _ in range(3)]
    return (128 + 90 * np.stack(waves, axis=2) + rng.normal(0, 5, (side, side, 3))).clip(0, 255).astype(np.uint8)


def encoded(pixels: Any, kind: str, **options: Any) -> bytes:
    """An image file, by Pillow."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


if __name__ == "__main__":
    main()

"""The same images as records and as a CSV with one file each, on a local disk and over a file store with 10 ms per request.

    python -m benchmarks.flows.image_stores [--images N] [--rounds N]

Writes the table and the chart to `benchmarks/images_over_a_store.md` and `.svg`.
"""

from __future__ import annotations

import argparse
import http.client
import os
import random
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import simplejpeg

import headrace as hr
from benchmarks.data import Files, Sizes, bench_folder
from benchmarks.file_store import BUCKET, store_of
from benchmarks.image_data import ImageFiles

BATCH = 128
DELAY_MS = 10
HERE = Path(__file__).resolve().parents[1]
PAGE, PICTURE = HERE / "images_over_a_store.md", HERE / "images_over_a_store.svg"
PLAIN = "files, plain loop"
FORMS = {
    "TFRecord": "all.tfrecord",
    "ArrayRecord": "all.array_record",
    "CSV + one file each": "train.csv",
    "image folder": "jpegs",
}
LISTED = "image folder"
"""Read as S3 from the same store: plain HTTP does not list."""
PLACES = ("local disk", f"store, {DELAY_MS} ms a request")
COLOURS = {"local disk": "#4c78a8", PLACES[1]: "#f58518"}
Key = tuple[str, str, bool]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found, first = measured(options.images, options.rounds)
    page = page_of(found, first, options.images, options.rounds)
    PAGE.write_text(page, encoding="utf-8")
    PICTURE.write_text(picture_of(found), encoding="utf-8")
    print(page)


def measured(images: int, rounds: int) -> tuple[dict[Key, float], dict[str, float]]:
    """Images per second for every form, place and order (the median of all rounds); seconds to the first shuffled batch."""
    pictures = ImageFiles(Files(bench_folder() / f"stores-{images}", Sizes(images=images)))
    pictures.prepare()
    folder = pictures.root.parent
    speeds: dict[Key, list[float]] = {}
    first: dict[str, float] = {}
    with store_of(folder, DELAY_MS) as url, tempfile.TemporaryDirectory() as cache:
        os.environ["HEADRACE_CACHE_DIR"] = cache
        os.environ.update(AWS_ENDPOINT_URL=url, AWS_SKIP_SIGNATURE="true", AWS_REGION="us-east-1")
        for form, name in FORMS.items():
            start = perf_counter()
            next(iter(hr.Loader(_opened(_place(url, form, name)), BATCH, shuffle=True)))
            first[form] = perf_counter() - start
        for _ in range(rounds):
            for form, name in FORMS.items():
                for place, base in zip(PLACES, (str(folder), url), strict=True):
                    source = _opened(_place(base, form, name))
                    len(source)
                    for shuffled in (False, True):
                        speeds.setdefault((form, place, shuffled), []).append(_epoch(source, images, shuffled=shuffled))
            for place, base in zip(PLACES, (str(folder), url), strict=True):
                for shuffled in (False, True):
                    names = [os.path.relpath(path, folder) for path in pictures.paths]
                    if shuffled:
                        random.Random(1).shuffle(names)
                    speeds.setdefault((PLAIN, place, shuffled), []).append(_plain_epoch(base, names))
    return {key: median(values) for key, values in speeds.items()}, first


def _place(base: str, form: str, name: str) -> str:
    return f"s3://{BUCKET}/{name}" if form == LISTED and base.startswith("http") else f"{base}/{name}"


def _opened(path: str) -> hr.Source:
    source = hr.open(path)
    columns = [name for name in source.schema if name not in ("label", "name")]
    return source.select(*columns)


def _epoch(source: hr.Source, images: int, *, shuffled: bool) -> float:
    start = perf_counter()
    seen = sum(len(next(iter(batch.values()))) for batch in hr.Loader(source, BATCH, shuffle=shuffled, seed=1))
    assert seen == images
    return images / (perf_counter() - start)


def _plain_epoch(base: str, names: list[str]) -> float:
    """The usual hand-written loop: two threads, each reading and decoding one file after another."""
    local = threading.local()

    def read(name: str) -> bytes:
        if not base.startswith("http"):
            return Path(base, name).read_bytes()
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection(base.removeprefix("http://"))
        local.connection.request("GET", f"/{name}")
        return local.connection.getresponse().read()

    def picture(name: str) -> np.ndarray:
        return simplejpeg.decode_jpeg(read(name))

    start = perf_counter()
    with ThreadPoolExecutor(2) as pool:
        for first in range(0, len(names), BATCH):
            np.stack(list(pool.map(picture, names[first : first + BATCH])))
    return len(names) / (perf_counter() - start)


def page_of(found: dict[Key, float], first: dict[str, float], images: int, rounds: int) -> str:
    """The table in Markdown."""
    rows = [
        f"| {form} | "
        + " | ".join(f"{found[form, place, shuffled]:,.0f}" for place in PLACES for shuffled in (False, True))
        + (f" | {first[form]:.2f} s |" if form in first else " | |")
        for form in (*FORMS, PLAIN)
    ]
    return "\n".join(
        [
            "# Images: records against one file each, here and over a store",
            "",
            f"{images:,} JPEGs of 256 x 256, decoded to batches of {BATCH} by `headrace.Loader` at its defaults; pictures a second.",
            f"The store is `benchmarks/file_store.py` on the same machine (a 2-vCPU AMD EPYC VM): {DELAY_MS} ms before every answer, and its own",
            "work takes from the same two cores. The middle of "
            f"{rounds} rounds in one run, all of them in turns; the machine is shared, so only ratios count.",
            "",
            "| | local, in order | local, shuffled | store, in order | store, shuffled | first shuffled batch from the store, from nothing |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
            *rows,
            "",
            "![Pictures a second](images_over_a_store.svg)",
            "",
            "The plain loop is two threads that each fetch (over a connection that stays open) and decode with simplejpeg one file after the",
            "other: 10 ms a file is what most code pays. Headrace fetches all files or ranges of a batch at once, so that over the store every",
            "form comes near the speed of decoding; records then still save requests: one or few a batch in order, instead of 128.",
            "",
            "The first shuffled batch of TFRecord waits for its index, which takes one pass over the file and is kept; ArrayRecord",
            "has its own. The folder of images is read as S3 from the same store, since plain HTTP does not list; its first batch waits",
            "for the list of all names, a request for every thousand, one after the other.",
            "",
            "Measure again: `python -m benchmarks.flows.image_stores`",
            "",
        ]
    )


def picture_of(found: dict[Key, float]) -> str:
    """Bars, as SVG."""
    most = max(found.values())
    left, top, width, bar = 190, 70, 430, 20
    parts: list[str] = []
    y = top
    for form in (*FORMS, PLAIN):
        parts.append(f'<text x="{left - 12}" y="{y + 2 * bar + 8}" text-anchor="end" font-weight="600">{form}</text>')
        for place in PLACES:
            for shuffled in (False, True):
                value = found[form, place, shuffled]
                opacity = 0.6 if shuffled else 1
                parts.append(
                    f'<rect x="{left}" y="{y}" width="{width * value / most:.1f}" height="{bar - 3}" rx="2" '
                    f'fill="{COLOURS[place]}" fill-opacity="{opacity}"/>'
                    f'<text x="{left + width * value / most + 8:.1f}" y="{y + 13}" class="small">{value:,.0f}'
                    f"{' shuffled' if shuffled else ' in order'}</text>"
                )
                y += bar
        y += 18
    legend = "".join(
        f'<rect x="{left + 190 * number}" y="42" width="12" height="12" rx="2" fill="{COLOURS[place]}"/>'
        f'<text x="{left + 18 + 190 * number}" y="52" class="small">{place}</text>'
        for number, place in enumerate(PLACES)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {y + 6}" font-family="system-ui, sans-serif" font-size="14">'
        "<style>.small{font-size:12px;fill:#555}</style>"
        f'<rect width="760" height="{y + 6}" fill="#fff"/>'
        f'<text x="{left}" y="26" font-size="16" font-weight="600">JPEGs of 256 × 256 decoded, a second</text>{legend}'
        + "".join(parts)
        + "</svg>\n"
    )


if __name__ == "__main__":
    main()

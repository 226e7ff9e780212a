"""How fast the viewer answers: ``python -m benchmarks.viewer``. It makes its files in a temporary folder, and asks a real server.

Rows of a million, first page of a process that has just started, and sixty thumbnails of photographs over six connections, as a browser asks:
small photographs, and those of a camera, of 12 megapixels and 2 MB each.
"""

from __future__ import annotations

import http.client
import io
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image

import headrace as hr

ROWS, PHOTOS, CONNECTIONS = 1_000_000, 300, 6
SMALL, LARGE = (500, 375), (4000, 3000)


class Served:
    """A viewer in its own process."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "view", "--no-browser", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        url = self.process.stdout.readline().strip()
        self.port = int(re.search(r":(\d+)/", url)[1])
        self.cookie = urllib.request.urlopen(url).headers["set-cookie"].split(";")[0]

    def get(self, path: str, connection: http.client.HTTPConnection | None = None) -> tuple[float, bytes]:
        """Milliseconds and body of one answer."""
        connection = connection or http.client.HTTPConnection("127.0.0.1", self.port)
        begun = time.perf_counter()
        connection.request("GET", path, headers={"cookie": self.cookie})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return 1000 * (time.perf_counter() - begun), body


def write_rows(rows: Path) -> None:
    """A million rows."""
    rng = np.random.default_rng(0)
    hr.write(
        rows,
        {
            "label": np.arange(ROWS) % 10,
            "x": rng.random((ROWS, 8)).astype(np.float32),
            "name": [f"row {i}" for i in range(ROWS)],
        },
    )
    len(hr.open(rows))  # builds the index


def write_photos(photos: Path, size: tuple[int, int], distinct: int) -> None:
    """Photographs of one size; `distinct` of them repeat."""
    rng = np.random.default_rng(0)
    images = []
    coarse = (12, 16, 3) if size == SMALL else (150, 200, 3)
    for _ in range(distinct):
        out = io.BytesIO()
        Image.fromarray(rng.integers(0, 255, coarse, np.uint8)).resize(size).save(out, "JPEG", quality=90)
        images.append(out.getvalue())
    hr.write(photos, [{"image": images[i % distinct], "label": i % 5} for i in range(PHOTOS)])


def thumbnails(served: Served) -> float:
    """Milliseconds for the images of a grid."""
    _, page = served.get("/0/grid")
    paths = [each.decode().replace("&amp;", "&") for each in re.findall(rb'src="([^"]+image\?[^"]+)"', page)]
    assert len(paths) == 60

    def fetch(part: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", served.port)
        for path in paths[part::CONNECTIONS]:
            served.get(path, connection)

    threads = [threading.Thread(target=fetch, args=(part,)) for part in range(CONNECTIONS)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1000 * (time.perf_counter() - begun)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.tfrecord")
        write_rows(rows)
        served = Served(rows)
        first = served.get("/0/")[0]
        pick = random.Random(0)
        single = [served.get(f"/0/?row={pick.randrange(ROWS)}")[0] for _ in range(100)]
        pages = [served.get(f"/0/?start={pick.randrange(ROWS - 50)}")[0] for _ in range(50)]
        served.process.terminate()
        found = {}
        for size, distinct in ((SMALL, PHOTOS), (LARGE, 12)):
            photos = Path(folder, f"photos-{size[0]}.tfrecord")
            write_photos(photos, size, distinct)
            served = Served(photos)
            found[size] = [thumbnails(served) for _ in range(5)]
            served.process.terminate()
    print(f"first page of a process: {first:.0f} ms (wanted: 300)")
    print(f"any row of {ROWS:,}: median {statistics.median(single):.1f} ms, slowest {max(single):.1f} ms (wanted: 100)")
    print(f"any page of {ROWS:,}: median {statistics.median(pages):.1f} ms, slowest {max(pages):.1f} ms")
    for (width, height), images in found.items():
        shown = f"first {images[0]:.0f} ms, median {statistics.median(images):.0f} ms (wanted: 500)"
        print(f"60 thumbnails of {width} x {height}: {shown}")


if __name__ == "__main__":
    main()

"""Rewrite `tests/corpus` with the small inputs found by `make fuzz` that cover most of each decoder.

python tools/fuzz_corpus.py [FOLDER]: with the corpora in FOLDER (build/fuzz/corpus), one folder per harness.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DECODERS = ("gzip_inflater", "jpeg", "png", "zstd_decoder")
MOST_BYTES = 300  # of one input
MOST_INPUTS = 60


def smallest(harness: Path, corpus: Path) -> list[bytes]:
    """A few small inputs that together cover what all small inputs of a corpus cover."""
    with tempfile.TemporaryDirectory() as folder:
        small, chosen = Path(folder) / "small", Path(folder) / "chosen"
        small.mkdir()
        chosen.mkdir()
        for path in corpus.iterdir():
            if 4 <= path.stat().st_size <= MOST_BYTES:
                (small / path.name).write_bytes(path.read_bytes())
        command = [str(harness), "-set_cover_merge=1", "-use_value_profile=0", str(chosen), str(small)]
        subprocess.run(command, check=True, capture_output=True)
        found = sorted((path.read_bytes() for path in chosen.iterdir()), key=lambda data: (len(data), data))
    return found[:: max(1, -(-len(found) // MOST_INPUTS))]


def main() -> None:
    """Choose inputs for each decoder, and write one per line."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "fuzz" / "corpus"
    for name in DECODERS:
        inputs = smallest(ROOT / "build" / "fuzz" / "native" / f"fuzz_{name}", folder / f"fuzz_{name}")
        (ROOT / "tests" / "corpus" / f"{name}.txt").write_text(
            "".join(f"{data.hex()}\n" for data in inputs), encoding="ascii"
        )
        print(f"{name}: {len(inputs)} inputs, {sum(map(len, inputs))} bytes")


if __name__ == "__main__":
    main()

"""Copy the golden files, and the payloads of the records in them, into a folder as seeds for fuzzing."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "tests" / "golden"
LARGEST = 64 << 10


def payloads(path: Path) -> list[bytes]:
    """The payloads of a plain TFRecord or RecordIO file; none of anything else."""
    data = path.read_bytes()
    if path.parent.name == "tfrecord":
        head, length_at, kind, tail = 12, 0, "<Q", 4
    elif path.parent.name == "recordio":
        head, length_at, kind, tail = 8, 4, "<I", 0
    else:
        return []
    out, at = [], 0
    while at + head <= len(data):
        (size,) = struct.unpack_from(kind, data, at + length_at)
        if at + head + size + tail > len(data):
            break
        out.append(data[at + head : at + head + size])
        at += head + size + tail
        at += -at % 4 if path.parent.name == "recordio" else 0
    return out


def chunks(path: Path) -> list[bytes]:
    """The beginning of an ArrayRecord file, and the chunks in it as `fuzz_riegeli_chunk` takes them: kind, counts, data."""
    if path.parent.name != "array_record":
        return []
    data = path.read_bytes()[:LARGEST]
    out, at = [data[: LARGEST // 4]], 64  # behind the signature
    while at + 40 <= len(data):
        _, size, _, kind, decoded = struct.unpack_from("<5Q", data, at)
        if at + 40 + size > len(data):
            break  # Block headers lie in what follows.
        head = bytes([kind & 255 == ord("r")]) + struct.pack("<HI", (kind >> 8) & 0xFFF, decoded)[:5]
        out.append(head + data[at + 40 : at + 40 + size])
        at += 40 + size
    return out


def frames(path: Path) -> list[bytes]:
    """A Zstandard frame as `fuzz_zstd_decoder` takes it: twice, behind a size and where to cut."""
    if path.suffix != ".zst":
        return []
    frame = path.read_bytes()
    return [struct.pack("<HH", 700, len(frame)) + frame + frame]


def main() -> None:
    """Write the seeds into the folder that the command line names."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(GOLDEN.rglob("*")):
        if not path.is_file() or path.suffix in (".json", ".md", ".toml"):
            continue
        records = payloads(path)
        twice = [record + record for record in records]  # two of one form, for `fuzz_tf_example`
        seeds = [path.read_bytes(), *records, *twice, *chunks(path), *frames(path)]
        for number, seed in enumerate(seeds):
            if len(seed) <= LARGEST:
                (folder / f"{path.name}-{number}").write_bytes(seed)


if __name__ == "__main__":
    main()

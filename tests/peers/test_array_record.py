"""We read files of the array_record package and it reads ours, with all options of the writer."""

import hashlib
import itertools
import json
import random
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.formats.array_record.files import CODECS, some_payloads, write
from tests.peers import wire_messages

from headrace.formats.array_record.format import ArrayRecordRecords
from headrace.formats.array_record.verify import salvage

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".venv-peers" / "bin" / "python"
SCRIPT = Path(__file__).with_name("array_record_peer.py")
BLOCK = 1 << 16

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(not PEERS.exists(), reason="needs .venv-peers (benchmarks/compare/setup_peers.sh)"),
]


def ask(jobs):
    """The answer of the real package."""
    done = subprocess.run([PEERS, SCRIPT], input=json.dumps(jobs), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def digest(content):
    return hashlib.sha256(content).hexdigest()


def put(path, payloads):
    path.write_bytes(b"".join(struct.pack("<I", len(payload)) + payload for payload in payloads))
    return str(path)


def sets():
    rng = random.Random(5)
    large = [rng.randbytes(200_000), b"", b"x" * 300_000, b"tiny"]
    return {
        "none": [],
        "small": some_payloads(500),
        "large": large,
        "empty": [b""] * 3000,
        "messages": [wire_messages.message(rng) for _ in range(400)],
        "mixed": [wire_messages.message(rng) if i % 3 else rng.randbytes(50) for i in range(300)],
    }


CODEC_OPTIONS = [
    "uncompressed",
    "zstd",
    "zstd:-3",
    "zstd:12,window_log:12",
    "brotli",
    "brotli:1,window_log:11",
    "snappy",
]
SHAPES = [
    "group_size:1",
    "group_size:7",
    "group_size:1000",
    "group_size:16,transpose:true",
    "group_size:3,pad_to_block_boundary:true",
]
SHAPES += ["group_size:200,transpose:true,transpose_bucket_size:64"]


def test_we_read_what_they_write(tmp_path):
    content = sets()
    files = {name: put(tmp_path / name, payloads) for name, payloads in content.items()}
    cases = list(itertools.product(content, SHAPES, CODEC_OPTIONS))
    jobs = [
        {
            "do": "write",
            "options": f"{shape},{codec}",
            "records": files[name],
            "path": str(tmp_path / f"{number}.array_record"),
        }
        for number, (name, shape, codec) in enumerate(cases)
    ]
    ask(jobs)
    for job, (name, *_) in zip(jobs, cases, strict=True):
        records = ArrayRecordRecords([job["path"]])
        payloads = content[name]
        assert [bytes(view) for view in records] == payloads, job
        if payloads:
            order = np.random.default_rng(0).integers(0, len(payloads), 30)
            assert records.spans(order).to_bytes() == [payloads[i] for i in order], job
        assert records.scan().damage == [], job
        assert len(ArrayRecordRecords([job["path"]], on_corrupt="skip")) == len(payloads), job


def test_they_read_what_we_write(tmp_path):
    content = sets()
    shapes = [
        {"group_size": 1},
        {"group_size": 7},
        {"group_size": 1000},
        {"group_size": 3, "pad_to_block_boundary": True},
    ]
    codecs = [{"compression": codec} for codec in CODECS]
    codecs += [{"compression": "zstd", "level": -3}, {"compression": "zstd", "level": 12, "window_log": 12}]
    codecs += [{"compression": "brotli", "level": 1, "window_log": 11}]
    jobs, expected = [], []
    for number, (name, shape, codec) in enumerate(itertools.product(content, shapes, codecs)):
        path = write(tmp_path / f"{number}.array_record", content[name], **shape, **codec)
        jobs.append({"do": "read", "path": path})
        options = ArrayRecordRecords([path]).footer().options
        expected.append({"options": options, "digests": [digest(payload) for payload in content[name]]})
    for job, answer, right in zip(jobs, ask(jobs), expected, strict=True):
        assert answer == right, job


def test_files_without_compression_are_equal_byte_for_byte(tmp_path):
    """Including chunks, footers and padding that end at, before and after block boundaries."""
    content = {f"left{left}": [b"x" * (BLOCK - 109 - left), b"y" * 10] for left in range(240)}
    content |= {f"exact{left}": [b"z" * (2 * BLOCK - 300 - left)] for left in range(80)}
    content |= sets()
    jobs, ours = [], []
    for number, (name, payloads) in enumerate(content.items()):
        for group_size in (1, 5, 3000):
            records = put(tmp_path / f"{number}.records", payloads)
            options = f"group_size:{group_size},uncompressed"
            jobs.append({"do": "write", "options": options, "records": records, "path": str(tmp_path / "theirs")})
            path = write(tmp_path / "ours", payloads, compression="none", group_size=group_size)
            ours.append((name, group_size, digest(Path(path).read_bytes())))
    for theirs, (name, group_size, mine) in zip(ask(jobs), ours, strict=True):
        assert theirs == mine, (name, group_size)


def test_single_records_under_zstandard_are_equal_byte_for_byte(tmp_path):
    """As long as the reference compresses a record, or its footer, in one piece: up to 4 KiB."""
    payloads = some_payloads(100, most=4000)
    path = write(tmp_path / "ours", payloads)
    job = {
        "do": "write",
        "options": "group_size:1",
        "records": put(tmp_path / "r", payloads),
        "path": str(tmp_path / "theirs"),
    }
    assert ask([job]) == [digest(Path(path).read_bytes())]


def test_they_read_what_we_salvage(tmp_path):
    payloads = some_payloads(100, most=2000)
    data = bytearray(Path(write(tmp_path / "x", payloads, group_size=10)).read_bytes())
    data[70] ^= 1
    (tmp_path / "damaged").write_bytes(data[:-70_000])
    salvage(tmp_path / "damaged", tmp_path / "out")
    (answer,) = ask([{"do": "read", "path": str(tmp_path / "out")}])
    assert answer["digests"] == [digest(payload) for payload in payloads[10:]]

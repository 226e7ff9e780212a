"""Every ``operator new`` of the bindings fails once: a MemoryError or the right value, and the process goes on.

The C++ tests do the same for the core (``native/tests/test_allocations.cpp``).
"""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(sys.platform != "linux" or COMPILER is None, reason="needs Linux and a C++ compiler")

SHIM = """
#include <cstdlib>
#include <new>
static thread_local long left = -1;
extern "C" void fail_after(long count) { left = count; }
extern "C" int has_failed() { return left == -2; }
static bool fails() { if (left < 0) return false; if (left-- != 0) return false; left = -2; return true; }
void* operator new(std::size_t size) {
    void* found = fails() ? nullptr : std::malloc(size ? size : 1);
    if (!found) throw std::bad_alloc();
    return found;
}
void* operator new(std::size_t size, std::align_val_t at) {
    void* found = nullptr;
    if (fails() || posix_memalign(&found, static_cast<std::size_t>(at), size ? size : 1)) throw std::bad_alloc();
    return found;
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }
"""

SCRIPT = r"""
import ctypes, sys
import numpy as np
import headrace as hr
from headrace import _native
from headrace.codecs.example.codec import ExampleCodec
from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec

shim = ctypes.PyDLL(sys.argv[1])
files = [_native.frame_tfrecords([b"abc", b"", b"x" * 40]).tobytes()] * 2
recordio = [_native.frame_recordio_payloads([b"abc", b"defg"]).tobytes()]
offsets, which = np.array([0, 19], np.int64), np.array([0, 1], np.int32)
rows, table, marks = np.array([0, 4], np.int64), b"1,2.5\n3,x\n", (",", '"', ".")
numbers, index = np.arange(4, dtype=np.int64), np.array([0, 3], np.int64)

schema = hr.Schema({"i": hr.Feature("int64", (2,)), "t": hr.Feature("str")})
examples = ExampleCodec(schema)
batch = {"i": numbers.reshape(2, 2), "t": np.array(["a", "bc"], object)}
block, starts, sizes = examples.encode_batch(batch, 2, 0, 0)
payloads = [block[start : start + size].tobytes() for start, size in zip(starts, sizes, strict=True)]
records = SageMakerRecordCodec(hr.Schema({"values": hr.Feature("float32", (2,)), "label": hr.Feature("float32")}))
floats = {"values": np.ones((2, 2), np.float32), "label": np.zeros(2, np.float32)}
block, starts, sizes = records.encode_batch(floats, 2, 0, 0)
messages = [block[start : start + size].tobytes() for start, size in zip(starts, sizes, strict=True)]
header = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}".ljust(117) + b"\n"

def scan_examples():
    scanner = _native.ExampleScanner()
    scanner.add(_native.spans_of_buffers(payloads))
    return scanner.keys

def scan_records():
    scanner = _native.RecordScanner()
    scanner.add(_native.spans_of_buffers(messages))
    return scanner.keys

CASES = {
    "scan_tfrecord": lambda: _native.scan_tfrecord(files[0], 0, 40, verify=True, max_records=9),
    "damage": lambda: _native.scan_tfrecord(b"x" * 40, 0, 40, verify=True, max_records=9),
    "gather_tfrecord": lambda: _native.gather_tfrecord(files, which, offsets, verify=True).to_bytes(),
    "part": lambda: _native.gather_tfrecord(files, which, offsets, verify=True).part(0, 1).to_bytes(),
    "frame_tfrecords": lambda: _native.frame_tfrecords([b"abc", b"def"]).tobytes(),
    "scan_recordio": lambda: _native.scan_recordio(recordio[0], 0, 20, max_records=9),
    "gather_recordio": lambda: _native.gather_recordio(recordio, None, offsets[:1]).to_bytes(),
    "frame_recordio": lambda: _native.frame_recordio_payloads([b"abc", b"def"]).tobytes(),
    "buffers": lambda: len(_native.Buffers(files)),
    "spans_of_buffers": lambda: _native.spans_of_buffers([b"a", b"bc"]).to_bytes(),
    "scan_csv": lambda: _native.scan_csv(table, 0, 12, marks, width=2, utf8=True, last=True, max_records=9),
    "gather_csv": lambda: _native.gather_csv([table], None, rows[:1], marks).to_bytes(),
    "take_rows": lambda: _native.take_rows(bytes(range(20)), 0, 4, 5, index).tobytes(),
    "crc32c_blocks": lambda: _native.crc32c_blocks(files[0], 16).tolist(),
    "parse_npy_header": lambda: _native.parse_npy_header(header),
    "decode_examples": lambda: examples.decode_batch(examples.spans_of(payloads)),
    "encode_examples": lambda: [part.tobytes() for part in examples.encode_batch(batch, 2, 0, 0)],
    "scan_examples": scan_examples,
    "decode_records": lambda: records.decode_batch(_native.spans_of_buffers(messages)),
    "encode_records": lambda: [part.tobytes() for part in records.encode_batch(floats, 2, 0, 0)],
    "scan_records": scan_records,
    "parse_record": lambda: _native.parse_record(messages[0]),
}

def outcome(work):
    try:
        return repr(work())
    except _native.FormatError as error:
        return f"FormatError {error.fault}"

for name, work in CASES.items():
    expected = outcome(work)
    for count in range(500):
        shim.fail_after(count)
        try:
            found = outcome(work)
        except MemoryError:
            found = None
        failed = shim.has_failed()
        shim.fail_after(-1)
        assert found is None or found == expected, (name, count, found, expected)
        assert outcome(work) == expected, (name, count)
        if not failed:
            break
    else:
        raise AssertionError(f"{name}: no end")
    assert count > 0, f"{name}: nothing was allocated"
    print(name, count, flush=True)
"""


def test_every_allocation_of_the_bindings_may_fail(tmp_path):
    source, shim = tmp_path / "shim.cpp", tmp_path / "shim.so"
    source.write_text(SHIM)
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", shim, source], check=True)
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, shim], env={"LD_PRELOAD": str(shim)}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr

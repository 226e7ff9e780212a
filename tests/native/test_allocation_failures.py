"""Every ``operator new`` of the bindings fails once: a MemoryError or the right value, and the process goes on.

The C++ tests do the same for the core (``native/tests/test_allocations.cpp``).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

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

CASES = Path(__file__).with_name("allocation_cases.py")


def test_every_allocation_of_the_bindings_may_fail(tmp_path):
    source, shim = tmp_path / "shim.cpp", tmp_path / "shim.so"
    source.write_text(SHIM)
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", shim, source], check=True)
    content = tmp_path / "content"
    content.write_bytes(b"abc" + bytes(range(256)) * 40)
    run = subprocess.run(
        [sys.executable, CASES, shim, content],
        env={"LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr

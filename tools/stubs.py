"""Write src/penstock/_native.pyi from the built module, or check that the committed one is what would be written."""

from __future__ import annotations

import sys
from pathlib import Path

from nanobind.stubgen import StubGen

STUB = Path(__file__).parent.parent / "src" / "penstock" / "_native.pyi"
HEAD = '"""Made by tools/stubs.py from the compiled module. Do not edit: run `make stubs`."""\n\n'


def generate() -> str:
    """The stub's text."""
    from penstock import _native

    stub = StubGen(module=_native, include_docstrings=True)
    stub.put(_native)
    return HEAD + str(stub.get()).lstrip()


def main() -> int:
    """Write, or with --check compare."""
    text = generate()
    if "--check" in sys.argv:
        if STUB.read_text(encoding="utf-8") != text:
            print(f"{STUB.name} is not what the compiled module says. Run `make stubs` and commit the result.")
            return 1
        return 0
    STUB.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

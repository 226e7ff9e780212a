"""Write src/headrace/_native.pyi from the built module, or check the committed one."""

from __future__ import annotations

import sys
from pathlib import Path

from nanobind.stubgen import StubGen

STUB = Path(__file__).parent.parent / "src" / "headrace" / "_native.pyi"
HEAD = '"""Made by tools/stubs.py from the compiled module. Do not edit: run `make stubs`."""\n\n'


# Not visible to the generator: attributes set on each exception.
FAULT_ATTRIBUTES = """
    fault: str
    offset: int
    expected: int
    found: int
    record: int
    feature: int
    starts: numpy.typing.NDArray[numpy.int64]
"""


def generate() -> str:
    """The stub's text."""
    from headrace import _native

    stub = StubGen(module=_native, include_docstrings=True)
    stub.put(_native)
    text = HEAD + str(stub.get()).lstrip()
    head, class_line, rest = text.partition("class FormatError(ValueError):")
    docstring, end, rest = rest.partition('    """\n\ndef ')
    text = head + class_line + docstring + end.removesuffix("\ndef ") + FAULT_ATTRIBUTES + "\ndef " + rest
    # collections.abc has Buffer from Python 3.12 on.
    return text.replace(
        "from collections.abc import Buffer, Sequence",
        "from collections.abc import Sequence\n\nfrom typing_extensions import Buffer",
    )


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

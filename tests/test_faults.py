"""Every native fault has its own message."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace._faults import describe
from headrace.errors import Where

NATIVE = Path(__file__).parents[1] / "native" / "core" / "base" / "cursor.hpp"
FAULTS = re.findall(r"^    (\w+), +///<", NATIVE.read_text(encoding="utf-8"), re.MULTILINE)


@dataclass
class Fault:
    fault: str
    offset: int = 16
    expected: int = 1
    found: int = 2
    record: int = 3
    feature: int = 0


def test_the_list_exists():
    assert {"truncated", "part", "wrong_shape"} <= set(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_a_sentence_of_its_own(name):
    error = describe(Fault(name), Where(path="x"), ["label"])
    assert f"fault {name!r}" not in str(error)
    assert (error.where.path, error.where.record, error.where.offset, error.where.feature) == ("x", 3, 16, "label")


def test_an_unknown_one_is_reported_nevertheless():
    assert "fault 'new'" in str(describe(Fault("new"), Where()))


def test_chunks_that_contradict_themselves():
    assert "a chunk of 5 records, as the footer says, found one of 2" in str(
        describe(Fault("structure", expected=5), Where())
    )
    assert "found parts that contradict each other" in str(describe(Fault("structure", expected=0), Where()))


def test_a_chunk_with_block_headers_is_not_said_to_fit():
    fault = describe(Fault("truncated", expected=40, found=40), Where())
    assert str(fault).startswith("expected more than 40 bytes, found 40 before the end")

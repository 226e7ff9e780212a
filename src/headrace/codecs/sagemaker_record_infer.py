"""The schema of SageMaker Records, found by looking at some of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace import _native
from headrace._faults import describe
from headrace.codecs.sagemaker_record_columns import BYTES, FLOAT32, FLOAT64, INT32
from headrace.codecs.sagemaker_record_places import LABEL, VALUES, Place, names_of
from headrace.contracts.feature import Feature
from headrace.contracts.image_kinds import encoding_by_counts
from headrace.contracts.schema import Schema
from headrace.errors import SchemaMismatch, Where

__all__ = ["FoundRecords", "infer_records"]

DTYPES = {FLOAT32: "float32", FLOAT64: "float64", INT32: "int32", BYTES: "bytes"}
Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """What inference found.

    Attributes:
        schema: Feature types.
        places: Where each feature stands in a Record.
        kinds: Which tensor each is.
    """

    schema: Schema
    places: dict[str, Place]
    kinds: dict[str, int]


def infer_records(blocks: Iterable[_native.Spans]) -> FoundRecords | None:
    """Find the schema of some records.

    A feature whose records have keys is sparse, and as wide as their shapes (``None`` where those differ); a shape without
    values and keys is an empty row of one. A dense feature has the shape written with it, with ``None`` for axes that
    differ, or where none is written ``(k,)`` for ``k`` values in every record, ``()`` for one value (``(1,)`` under
    ``values``, which is the vector), and ``(None,)`` where the number varies or some records lack it. Bytes that are UTF-8
    without control characters in every record are ``"str"``; those that all begin as one kind of image have its
    ``encoding``. A string that some records lack has the default ``""``. A key that never holds a tensor is left out.

    Args:
        blocks: The records to look at.

    Returns:
        ``None`` where they are no Records: half of the payloads or more are no such messages, or none has a tensor.

    Raises:
        CorruptRecord: The checksum of the very first record is wrong.
        SchemaMismatch: A feature holds different kinds of tensors.
    """
    scanner = _native.RecordScanner()
    for spans in blocks:
        try:
            scanner.add(spans)
        except _native.FormatError as error:
            if scanner.records == 0:
                raise describe(error, Where(record=error.record)) from error
            break  # Reading will report it, at its place; what came before tells the schema.
    if scanner.strangers >= scanner.records:
        return None  # Otherwise they are damaged ones, which reading will report.
    facts = {Place(key["place"], bytes(key["key"])): key for key in scanner.keys if key["records"]}
    if not any(place.field <= LABEL for place in facts):
        return None
    places = names_of(facts)
    features = {name: _feature(name, place, facts[place], scanner.records) for name, place in places.items()}
    kinds = {name: _kind(name, facts[place]) for name, place in places.items() if place.field <= LABEL}
    return FoundRecords(Schema(features), places, kinds)


def _feature(name: str, place: Place, facts: Facts, records: int) -> Feature:
    everywhere = facts["records"] == records
    if place.field > LABEL:
        return Feature("str", default=None if everywhere else "")
    kind = _kind(name, facts)
    if kind == BYTES:
        dtype, encoding = _text(facts)
        return Feature(dtype, _dense(place, facts, everywhere=everywhere), encoding=encoding)
    if facts["sparse"] or facts["shape_only"] == facts["records"]:
        same = facts["narrowest"] == facts["widest"]
        return Feature(DTYPES[kind], (facts["widest"] if same else None,), sparse=True)
    return Feature(DTYPES[kind], _dense(place, facts, everywhere=everywhere))


def _kind(name: str, facts: Facts) -> int:
    held = [kind for kind in DTYPES if facts["kinds"][kind]]
    if len(held) == 1:
        return held[0]
    raise SchemaMismatch(
        Where(feature=name),
        expected="one kind of tensor in all records",
        found=", ".join(f"{DTYPES[kind]} in {facts['kinds'][kind]}" for kind in held),
        hint="Give a schema without it, or read the records with codec='raw'.",
    )


def _dense(place: Place, facts: Facts, *, everywhere: bool) -> tuple[int | None, ...]:
    if facts["shaped"] == facts["records"] and facts["same_rank"] and facts["sound"]:
        axes = tuple(a if a == b else None for a, b in zip(facts["shortest"], facts["longest"], strict=True))
        return axes if everywhere else (None, *axes[1:])
    if facts["fewest"] != facts["most"] or not everywhere:
        return (None,)
    return () if facts["most"] == 1 and place != VALUES else (facts["most"],)


def _text(facts: Facts) -> tuple[str, Any]:
    encoding = encoding_by_counts(facts["texts"], facts["images"])
    if encoding is not None:
        return "bytes", encoding
    return ("str" if facts["plain_text"] and facts["texts"] else "bytes"), None

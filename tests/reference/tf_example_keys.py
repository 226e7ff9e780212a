"""Slow, plain sparse and ragged features of a tf.Example, from Python lists. ``Malformed`` if they contradict each other."""

from __future__ import annotations

from tests.reference.proto import Malformed


def sparse_row(indices, values, sizes, *, is_sorted=False):
    """(cell, value) pairs in order; cells are numbered row by row."""
    cells = []
    for positions, size in zip(indices, sizes, strict=True):
        if len(positions) != len(values) or any(not 0 <= position < size for position in positions):
            raise Malformed("positions")
    for at in range(len(values)):
        cell = 0
        for positions, size in zip(indices, sizes, strict=True):
            cell = cell * size + positions[at]
        cells.append((cell, values[at]))
    return cells if is_sorted else sorted(cells, key=lambda pair: pair[0])


def bounds(kind, given, total):
    """Start and end of each row, of ``total`` values."""
    if kind == "uniform_row_length":
        if total % given:
            raise Malformed("uniform")
        return [(start, start + given) for start in range(0, total, given)]
    if kind == "value_rowids":
        if len(given) != total or given != sorted(given) or any(number < 0 for number in given):
            raise Malformed("ids")
        count = given[-1] + 1 if given else 0
        return [(sum(g < row for g in given), sum(g <= row for g in given)) for row in range(count)]
    if kind == "row_lengths":
        ends = [sum(given[: i + 1]) for i in range(len(given))]
    elif kind == "row_limits":
        ends = given
    elif kind == "row_splits":
        ends = given[1:]
    else:
        ends = [*given[1:], total] if given else []
    if kind in ("row_splits", "row_starts") and given and given[0] != 0:
        raise Malformed("begin")
    found = list(zip([0, *ends], ends))
    if any(a > b for a, b in found) or (ends[-1] if ends else 0) != total:
        raise Malformed("cover")
    return found


def ragged_rows(values, partitions):
    """Rows of rows: ``partitions`` are pairs of a kind and a list (or a length), from the outermost."""
    for kind, given in reversed(partitions):
        values = [values[a:b] for a, b in bounds(kind, given, len(values))]
    return values

"""``headrace schema``: feature names and types."""

from __future__ import annotations

import json

from headrace.cli.options import AsJson, CodecName, Columns, FormatName, Paths, opened
from headrace.cli.terminal.console import print_json, print_table
from headrace.cli.terminal.values import printable
from headrace.contracts.schema import Schema

__all__ = ["print_schema", "schema"]


def schema(
    paths: Paths,
    *,
    format: FormatName = None,
    codec: CodecName = None,
    columns: Columns = None,
    as_json: AsJson = False,
) -> None:
    """Show feature names and types, found from the first records.

    The JSON form is what --schema of other commands and Schema.from_json read.

    Examples:
      headrace schema train.tfrecord
      headrace schema 'shards/*.tfrecord' --json > schema.json
    """
    found = opened(paths, format=format, codec=codec, columns=columns).schema
    if as_json:
        print_json(json.loads(found.to_json()))
    else:
        print_schema(found)


def print_schema(schema: Schema, *, indent: int = 0) -> None:
    """A schema as a table."""
    rows = []
    for name, feature in schema.items():
        dtype = (
            feature.dtype
            + (f" ({feature.encoding})" if feature.encoding else "")
            + (" (sparse)" if feature.sparse else "")
        )
        keys = "" if feature.keys is None else f" from {', '.join(map(printable, feature.keys.keys))}"
        shape = str(feature.shape) + keys + ("" if feature.default is None else f" default {feature.default!r}")
        rows.append((printable(name), dtype, shape))
    print_table(("feature", "dtype", "shape"), rows, indent=indent)

"""Batches of features into one CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.contracts.csv import CSV
from headrace.contracts.schema import Schema
from headrace.formats.csv_rows import CsvRows, refused
from headrace.formats.csv_writer import CsvWriter
from headrace.formats.tabular.sinks import refuse_misfits
from headrace.io.paths import PathLike

__all__ = ["CsvSink"]


class CsvSink:
    """Batches into one CSV file, which appears under its name at ``close``, or never.

    Args:
        path, compression: Of the file.
        schema: The features, in the order of the columns.
        options: How it is to be written.
        first: Whether the file begins here, with its header, or is to be appended to another.

    Raises:
        UnsupportedData: A feature that rows of text cannot hold.
    """

    def __init__(
        self,
        path: PathLike,
        schema: Schema,
        *,
        compression: str = "none",
        options: CSV | None = None,
        first: bool = True,
    ) -> None:
        refuse_misfits(path, refused(schema))
        self.rows = CsvRows(schema, options)
        preamble = self.rows.preamble() if first else b""  # Before there is a file: this may refuse.
        self.writer = CsvWriter(path, compression=compression)
        self.writer.write_text(preamble, 0)

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Append rows."""
        self.writer.write_text(self.rows.encode_rows(batch, n), n)

    def close(self) -> None:
        """Put the file into its place."""
        self.writer.close()

    def abort(self) -> None:
        """Leave no file behind."""
        self.writer.abort()

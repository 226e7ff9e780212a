"""What every format is held to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.contracts.records import Format
from headrace.contracts.schema import Schema
from headrace.errors import DataError, HeadraceError
from headrace.formats.open import detect, open_records
from headrace.formats.registry import format_named, format_of_name
from headrace.sources.open import open as open_source
from headrace.sources.source import Source
from headrace.sources.stacking import row
from headrace.testing.data import KINDS, assert_same, kinds_batch, kinds_schema
from headrace.testing.sources import SourceTests
from headrace.testing.strategies import batches, features, schemas
from headrace.writing.convert import convert
from headrace.writing.verify import verify
from headrace.writing.write import write
from headrace.writing.writer import Writer

__all__ = ["FormatTests"]

ROWS = 40
NOTES = (".json", ".jsonl")
"""Of a folder: its format, and the values of other features."""


class FormatTests(SourceTests):
    """Subclass it, name a format of the registry, and pytest runs these tests on it, and those of :class:`SourceTests`.

        class TestMine(FormatTests):
            format = "mine"
            kinds = ("int64", "text", "vector")

    Args:
        format: The name in the registry.
        kinds: Names of :data:`~headrace.testing.KINDS` that come back as they were under their schema.
        carries_schema: Whether they do so also without it.
        shows_truncation: Whether a file that was cut off anywhere is an error.
        shows_flips: Whether every flipped byte is an error, or changes nothing.
        known_by_content: Whether the first bytes (of a folder: what is in it) show the format.
        holds_no_rows: Whether a file without rows can be opened again.
        random_schemas: What hypothesis draws round trips from; ``None`` leaves them out.
        damaged_places: At how many places, about, a file is cut and flipped.
    """

    format: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    carries_schema: ClassVar[bool] = False
    shows_truncation: ClassVar[bool] = True
    shows_flips: ClassVar[bool] = False
    known_by_content: ClassVar[bool] = True
    holds_no_rows: ClassVar[bool] = True
    random_schemas: ClassVar[st.SearchStrategy[Schema] | None] = schemas(features())
    damaged_places: ClassVar[int] = 60

    @property
    def _format(self) -> Format:
        return format_named(self.format)

    @property
    def schema(self) -> Schema:
        """Of what is written."""
        return kinds_schema(self.kinds)

    def batch(self, rows: int) -> dict[str, Any]:
        """What is written."""
        return kinds_batch(rows, self.kinds)

    def path(self, folder: Path) -> Path:
        """Where to: a file with the format's own ending, or a folder where a format has none."""
        return folder / f"x{self._ending}"

    @property
    def _ending(self) -> str:
        return next(iter(self._format.suffixes), "")

    @property
    def _named(self) -> dict[str, Any]:
        """What names the format where no ending does."""
        return {} if self._format.suffixes else {"format": self.format}

    def opened(self, path: str | Path, **options: Any) -> Source:
        """The written files, opened: under their own schema, unless ``options`` have another."""
        return open_source(path, **{**self._named, "schema": self.schema, **options})

    def written(self, folder: Path, rows: int = ROWS) -> Path:
        """A file of some rows."""
        path = self.path(folder)
        assert write(path, self.batch(rows), schema=self.schema, **self._named) == rows
        return path

    def make(self, folder: Path) -> Source:
        """The source that the suite of sources looks at."""
        return self.opened(self.written(folder))

    def test_the_registry_has_it(self) -> None:
        assert self._format.name == self.format
        for suffix in self._format.suffixes:
            assert format_of_name(f"x{suffix}") == self.format
        assert self._format.suffixes or self._format.folder is not None or not self.known_by_content

    def test_its_content_shows_it(self, tmp_path: Path) -> None:
        if self.known_by_content:
            unnamed = self.written(tmp_path).rename(tmp_path / "unnamed")
            assert (open_records(unnamed).format if unnamed.is_dir() else detect(str(unnamed)).name) == self.format

    def test_what_is_written_is_read(self, tmp_path: Path) -> None:
        path = self.written(tmp_path)
        order = np.random.default_rng(1).permutation(ROWS)
        batch = self.batch(ROWS)
        found = self.opened(path).batch(order)
        for position, index in enumerate(order.tolist()):
            assert_same(row(found, position), row(batch, index))
        if self.carries_schema:
            bare = open_source(path, **self._named)
            assert bare.schema == self.schema
            assert_same(bare.batch(order), found)

    def test_kinds_that_it_does_not_hold_are_refused(self, tmp_path: Path) -> None:
        """By name, before anything is written."""
        for name in KINDS:
            if name in self.kinds:
                continue
            try:
                path = self.path(self._folder(tmp_path / name))
                write(path, kinds_batch(3, [name]), schema=kinds_schema([name]), **self._named)
                found = self.opened(path, schema=kinds_schema([name])).batch(np.arange(3))
                assert_same(found, kinds_batch(3, [name]))
                pytest.fail(f"{self.format} holds the kind {name!r}: add it to kinds")
            except (AssertionError, HeadraceError):
                continue

    def test_examples_one_by_one(self, tmp_path: Path) -> None:
        batch = self.batch(ROWS)
        with Writer(self.path(tmp_path), schema=self.schema, **self._named) as writer:
            for index in range(ROWS):
                writer.write(row(batch, index))
        found = self.opened(self.path(tmp_path)).batch(np.arange(ROWS))
        for index in range(ROWS):
            assert_same(row(found, index), row(batch, index))

    def test_no_rows(self, tmp_path: Path) -> None:
        with Writer(self.path(tmp_path), schema=self.schema, **self._named):
            pass
        if self.holds_no_rows:
            source = self.opened(self.path(tmp_path), format=self.format)
            assert len(source) == 0
            assert list(source) == []

    def test_nothing_is_left_of_a_writer_that_fails(self, tmp_path: Path) -> None:
        with pytest.raises(ZeroDivisionError):  # noqa: SIM117 - one line would be too long
            with Writer(self.path(tmp_path), schema=self.schema, **self._named) as writer:
                writer.write_batch(self.batch(3))
                raise ZeroDivisionError
        assert list(tmp_path.iterdir()) == []

    def test_shards(self, tmp_path: Path) -> None:
        path = self.path(tmp_path)
        write(path, self.batch(ROWS), schema=self.schema, shards=3, **self._named)
        found = self.opened(f"{path}@3").batch(np.arange(ROWS))
        for index, expected in enumerate(self.opened(self.written(tmp_path))):
            assert_same(row(found, index), dict(expected))

    def test_every_compression(self, tmp_path: Path) -> None:
        found = self._format
        names = found.compressions or (("none", "gzip", "zlib") if found.compressible else ("none",))
        for name in names:
            path = self.path(self._folder(tmp_path / name))
            write(path, self.batch(ROWS), schema=self.schema, compression=name, **self._named)
            got = self.opened(path).batch(np.arange(ROWS))
            for index in range(ROWS):
                assert_same(row(got, index), row(self.batch(ROWS), index))

    def test_it_is_joined_from_several_parts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headrace.writing.units.UNIT_EXAMPLES", 11)
        source = self.opened(self.written(tmp_path))
        other = tmp_path / f"other{self._ending}"
        assert convert(source, other, **self._named).examples == ROWS
        assert_same(self.opened(other).batch(np.arange(ROWS)), source.batch(np.arange(ROWS)))

    def test_sound_files_have_no_fault(self, tmp_path: Path) -> None:
        path = self.written(tmp_path)
        report = verify(path, **self._named)
        assert report.ok, str(report)
        files = self._files_of(path)
        assert (report.files, report.records) == (len(files), ROWS)
        assert report.bytes == sum(file.stat().st_size for file in files)

    def test_cut_off_anywhere(self, tmp_path: Path) -> None:
        """An error of ours, or rows that are those of the whole file."""
        path = self.written(tmp_path, 6)
        whole, expected = self._files_of(path)[0].read_bytes(), self._examples(path)
        for size in self._places(len(whole)):
            cut = self._with_content(path, tmp_path / f"cut{size}{self._ending}", whole[:size])
            try:
                found = self._examples(cut)
            except DataError as error:
                assert error.expected
                assert error.found
                continue
            assert not self.shows_truncation, f"cut to {size} of {len(whole)} bytes, without an error"
            assert len(found) <= len(expected)

    def test_a_flipped_byte_anywhere(self, tmp_path: Path) -> None:
        """An error of ours or data, never a crash; the same data where the format has checksums."""
        path = self.written(tmp_path, 6)
        whole, expected = self._files_of(path)[0].read_bytes(), self._examples(path)
        for at in self._places(len(whole)):
            flipped = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
            file = self._with_content(path, tmp_path / f"flipped{at}{self._ending}", flipped)
            try:
                found = self._examples(file)
            except DataError as error:
                assert error.expected
                continue
            if self.shows_flips:
                for one, other in zip(found, expected, strict=True):
                    assert_same(one, other)

    def _places(self, size: int) -> list[int]:
        """Every place of small files, and of larger ones those at both ends and some between."""
        if size <= self.damaged_places:
            return list(range(size))
        edge = self.damaged_places // 4
        step = max(1, size // (2 * edge))
        return sorted({*range(edge), *range(edge, size - edge, step), *range(size - edge, size)})

    def _folder(self, path: Path) -> Path:
        path.mkdir()
        return path

    def _files_of(self, path: Path) -> list[Path]:
        """The file, or those in the folder that hold examples; the first one is damaged in tests."""
        if path.is_file():
            return [path]
        return sorted(file for file in path.rglob("*") if file.is_file() and file.suffix not in NOTES)

    def _with_content(self, path: Path, other: Path, content: bytes) -> Path:
        """A copy of ``path`` at ``other``, its first file with another content."""
        if path.is_file():
            other.write_bytes(content)
        else:
            shutil.copytree(path, other)
            self._files_of(other)[0].write_bytes(content)
        return other

    def _examples(self, path: Path) -> list[Any]:
        source = self.opened(path, format=self.format, schema=self.schema)
        batch = source.batch(np.arange(len(source)))
        return [row(batch, index) for index in range(len(source))]

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def test_random_schemas_and_values(self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
        if self.random_schemas is None:
            return
        schema = data.draw(self.random_schemas)
        batch = data.draw(batches(schema))
        path = self.path(tmp_path_factory.mktemp("random"))
        rows = write(path, batch, schema=schema, **self._named)
        found = self.opened(path, format=self.format, schema=schema).batch(np.arange(rows))
        for index in range(rows):
            assert_same(row(found, index), row(batch, index))

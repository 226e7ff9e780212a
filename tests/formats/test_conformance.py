"""Every format passes the suite that ships in the package."""

import numpy as np
from tests.codecs.images.files import made, noise

from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.formats.open import open_records
from headrace.sources.open import open as open_source
from headrace.testing import FormatTests, SourceTests, kinds_batch, kinds_schema
from headrace.testing.strategies import features, schemas
from headrace.writing.write import write

CHUNK_HEADER = 40
STORED = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32")  # what an Example has room for
NUMBERS = (*STORED, "uint64", "float64")


class TestTFRecord(FormatTests):
    format = "tfrecord"
    kinds = (
        "flag",
        "int8",
        "int32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "text",
        "payload",
        "vector",
        "matrix",
        "words",
        "ragged",
        "texts",
        "nested",
    )
    shows_flips = True
    shows_truncation = False  # between two records
    random_schemas = schemas(features((*STORED, "str", "bytes")))


class TestArrayRecord(TestTFRecord):
    format = "array_record"
    shows_truncation = True


class TestRecordIO(FormatTests):
    format = "recordio"
    kinds = (
        "flag",
        "int8",
        "int32",
        "float16",
        "float32",
        "float64",
        "text",
        "payload",
        "vector",
        "matrix",
        "words",
        "ragged",
        "points",
        "texts",
        "sparse",
    )
    shows_truncation = False  # between two records
    random_schemas = schemas(features(("bool", "int8", "int32", "uint8", "float32", "float64", "str", "bytes")))


class TestNpy(FormatTests):
    format = "npy"
    kinds = ("flag", "int8", "int32", "int64", "uint64", "float16", "float32", "float64", "when", "vector", "matrix")
    carries_schema = True
    random_schemas = schemas(features(NUMBERS, varying=False), least=2)  # the name of a single one is not kept


class TestParquet(FormatTests):
    format = "parquet"
    kinds = (*TestNpy.kinds, "text", "payload", "words", "ragged", "points", "texts", "nested")
    carries_schema = True
    random_schemas = schemas(features((*NUMBERS, "str", "bytes")))


class TestAvro(FormatTests):
    format = "avro"
    kinds = tuple(kind for kind in TestParquet.kinds if kind != "uint64")
    carries_schema = True
    random_schemas = schemas(features((*STORED, "float64", "str", "bytes")))


class TestJsonLines(FormatTests):
    format = "jsonl"
    kinds = tuple(kind for kind in TestParquet.kinds if kind != "payload")
    shows_truncation = False
    random_schemas = schemas(features((*NUMBERS, "str")))


class TestWebDataset(FormatTests):
    format = "webdataset"
    kinds = (*TestNpy.kinds, "text", "payload", "ragged", "points")
    carries_schema = True
    known_by_content = False
    random_schemas = schemas(features(NUMBERS))


class TestCsv(FormatTests):
    format = "csv"
    kinds = (*(kind for kind in TestNpy.kinds if kind != "when"), "text", "words")
    known_by_content = False
    shows_truncation = False
    random_schemas = schemas(features((*NUMBERS, "str"), varying=False))


class TestNpz(FormatTests):
    format = "npz"
    kinds = TestNpy.kinds
    carries_schema = True
    shows_flips = True
    random_schemas = schemas(features(NUMBERS, varying=False))


class TestNpyFolder(FormatTests):
    """One array, and what a manifest holds."""

    format = "npy_folder"
    kinds = ("vector", "flag", "int64", "float64", "text")
    holds_no_rows = False
    known_by_content = True
    random_schemas = None  # it cannot hold two arrays

    def test_kinds_that_it_does_not_hold_are_refused(self):
        """It holds a single array of any numeric kind."""


class TestNpzFolder(FormatTests):
    format = "npz_folder"
    kinds = (*TestNpy.kinds, "ragged", "points")
    known_by_content = False  # a folder of .npz without a manifest means rows
    holds_no_rows = False
    shows_flips = True
    random_schemas = schemas(features(NUMBERS))


class TestImageFolder(FormatTests):
    """Encoded images by class; `decode=False` returns the stored bytes."""

    format = "image_folder"
    kinds = ()
    shows_truncation = False  # nothing is decoded, so the images need not be valid
    holds_no_rows = False
    random_schemas = None
    schema = Schema({"image": Feature("bytes", encoding="png"), "label": Feature("int64", names=("cat", "dog"))})

    def batch(self, rows):
        images = np.array([made(noise(4, 5, seed=seed)) for seed in range(rows)], object)
        return {"image": images, "label": np.repeat([0, 1], [rows - rows // 3, rows // 3])}

    def opened(self, path, **options):
        return super().opened(path, decode=False, **options).select("image", "label")


class TestRiegeli(SourceTests):
    """Read-only: the chunks of an ArrayRecord file without its footer."""

    def make(self, folder):
        whole, path = folder / "x.array_record", folder / "x.riegeli"
        write(
            whole,
            kinds_batch(40, TestArrayRecord.kinds),
            schema=kinds_schema(TestArrayRecord.kinds),
            compression="none",
        )
        content, last = whole.read_bytes(), int(open_records(whole).footer().begins[-1])
        path.write_bytes(content[: last + CHUNK_HEADER + int.from_bytes(content[last + 8 : last + 16], "little")])
        return open_source(path, format="riegeli", schema=kinds_schema(TestArrayRecord.kinds))

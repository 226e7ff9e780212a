"""Every format against the suite that ships in the package."""

from penstock.testing import FormatTests
from penstock.testing.strategies import features, schemas

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

"""Every codec passes the suite that ships in the package."""

from tests.formats.test_conformance import TestRecordIO as RecordIO
from tests.formats.test_conformance import TestTFRecord as TFRecord

from headrace.codecs.example.codec import ExampleCodec
from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
from headrace.testing import CodecTests


class TestExample(CodecTests):
    kinds = tuple(kind for kind in TFRecord.kinds if kind != "nested")

    def make(self, schema):
        return ExampleCodec(schema)


class TestSageMakerRecord(CodecTests):
    kinds = tuple(kind for kind in RecordIO.kinds if kind != "sparse")

    def make(self, schema):
        return SageMakerRecordCodec(schema)


class TestSparseRecord(CodecTests):
    kinds = ("sparse", "float32")

    def make(self, schema):
        return SageMakerRecordCodec(schema)


del RecordIO, TFRecord  # They are tested where they are.

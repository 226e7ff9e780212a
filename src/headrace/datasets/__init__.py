"""Prepared datasets of TFDS, opened by name or folder without TensorFlow."""

from headrace.datasets.columns import Steps
from headrace.datasets.decoders import Decoder, PartialDecoding, SkipDecoding
from headrace.datasets.locate import prepared_names
from headrace.datasets.opening import data_source
from headrace.datasets.prepared import Prepared, PreparedSplit
from headrace.datasets.source import PreparedSource

__all__ = [
    "Decoder",
    "PartialDecoding",
    "Prepared",
    "PreparedSource",
    "PreparedSplit",
    "SkipDecoding",
    "Steps",
    "data_source",
    "prepared_names",
]

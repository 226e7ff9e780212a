"""Datasets that TFDS prepared: opened by name or folder, without TensorFlow."""

from penstock.datasets.decoders import Decoder, PartialDecoding, SkipDecoding
from penstock.datasets.locate import prepared_names
from penstock.datasets.opening import data_source
from penstock.datasets.prepared import Prepared, PreparedSplit
from penstock.datasets.source import PreparedSource
from penstock.datasets.steps import Steps

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

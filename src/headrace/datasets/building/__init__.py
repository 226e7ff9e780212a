"""Making prepared datasets: a builder, the order of its examples, the files they lie in, what the folder says of itself."""

from headrace.datasets.building.builder import DatasetBuilder
from headrace.datasets.building.described import write_metadata
from headrace.datasets.building.own import csv_builder, image_folder_builder, tfds_folder_builder

__all__ = ["DatasetBuilder", "csv_builder", "image_folder_builder", "tfds_folder_builder", "write_metadata"]

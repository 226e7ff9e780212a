"""Making prepared datasets: a builder, the order of its examples, the files they lie in, what the folder says of itself."""

from penstock.datasets.building.builder import DatasetBuilder
from penstock.datasets.building.described import write_metadata
from penstock.datasets.building.own import csv_builder, image_folder_builder, tfds_folder_builder

__all__ = ["DatasetBuilder", "csv_builder", "image_folder_builder", "tfds_folder_builder", "write_metadata"]

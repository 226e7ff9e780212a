"""Make prepared datasets: builders, the order of examples, files, and the description of the folder."""

from headrace.datasets.building.builder import DatasetBuilder
from headrace.datasets.building.describe import write_metadata
from headrace.datasets.building.own_files import csv_builder, image_folder_builder, tfds_folder_builder

__all__ = ["DatasetBuilder", "csv_builder", "image_folder_builder", "tfds_folder_builder", "write_metadata"]

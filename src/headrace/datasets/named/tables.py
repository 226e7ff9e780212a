"""Small tables of the UCI Machine Learning Repository, from their CSV files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.datasets.building.builder import DatasetBuilder
from headrace.datasets.building.preparing import Examples
from headrace.datasets.downloading.downloads import Downloads, Resource
from headrace.datasets.features.label import ClassLabel
from headrace.datasets.features.mapping import FeaturesDict
from headrace.datasets.features.tensor import Tensor
from headrace.errors import CorruptFile, Where
from headrace.io.faults import name_in_errors

__all__ = ["abalone", "iris"]

SPECIES = ("Iris-setosa", "Iris-versicolor", "Iris-virginica")
MEASURES = ("Length", "Diameter", "Height", "Whole weight", "Shucked weight", "Viscera weight", "Shell weight")
UCI = "https://archive.ics.uci.edu/"
LICENSE = "CC BY 4.0"


def iris() -> DatasetBuilder:
    """Measures of 150 flowers of three species: sepal length and width, petal length and width, in cm."""
    plain = Resource(
        urls=(UCI + "ml/machine-learning-databases/iris/iris.data",),
        size=4551,
        sha256="6f608b71a7317216319b4d27b4d9bc84e6abd734eda7872b71a458569e2656c0",
    )
    zipped = Resource(
        urls=(UCI + "static/public/53/iris.zip",),
        size=3738,
        sha256="d11fe30213d36434a0879aab7cb00ce3c812eb7ba2495874438abff7b7b762e9",
        otherwise=plain,
    )
    return DatasetBuilder(
        name="iris",
        version="2.1.0",
        features=FeaturesDict({"features": Tensor(shape=(4,), dtype="float32"), "label": ClassLabel(names=SPECIES)}),
        splits=_iris_splits,
        resources={"iris": zipped},
        supervised_keys=("features", "label"),
        description="Measures of 150 flowers of three species of iris, in cm: sepal length and width, petal length and width.",
        citation="R. A. Fisher: Iris. UCI Machine Learning Repository, doi:10.24432/C56C76.",
        license=LICENSE,
        urls=("https://archive.ics.uci.edu/dataset/53/iris",),
    )


def abalone() -> DatasetBuilder:
    """Measures of 4,177 shells, and their rings; the age is rings + 1.5 years."""
    file = Resource(
        urls=(UCI + "ml/machine-learning-databases/abalone/abalone.data",),
        size=191873,
        sha256="de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f",
    )
    measures = dict.fromkeys(MEASURES, "float32")
    return DatasetBuilder(
        name="abalone",
        version="1.0.0",
        features=FeaturesDict({"features": {"Sex": ClassLabel(names=("M", "F", "I")), **measures}, "rings": "int64"}),
        splits=lambda downloads: {"train": lambda: _abalone(downloads["abalone"])},
        resources={"abalone": file},
        supervised_keys=("features", "rings"),
        description="Measures of 4,177 shells (lengths in units of 200 mm, weights in units of 200 g) and their rings.",
        citation="W. Nash and others: Abalone. UCI Machine Learning Repository, doi:10.24432/C55C7W.",
        license=LICENSE,
        urls=("https://archive.ics.uci.edu/dataset/1/abalone",),
    )


def _iris_splits(downloads: Downloads) -> Mapping[str, Examples]:
    import zipfile

    path = downloads["iris"]
    if zipfile.is_zipfile(path):
        path = downloads.unpacked("iris", only={"iris.data": "iris.data"}) / "iris.data"
    return {"train": lambda: _iris(path)}


def _iris(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, fields in _rows(path, 5):
        yield number, {"features": _floats(path, number, fields[:4]), "label": fields[4]}


def _abalone(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, fields in _rows(path, 9):
        measures = dict(zip(MEASURES, _floats(path, number, fields[1:8]), strict=True))
        (rings,) = _floats(path, number, fields[8:])
        yield number, {"features": {"Sex": fields[0], **measures}, "rings": int(rings)}


def _rows(path: Path, width: int) -> Iterator[tuple[int, list[str]]]:
    with name_in_errors(str(path)):
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    for number, line in enumerate(line for line in lines if line.strip()):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != width:
            raise CorruptFile(Where(path=str(path), record=number), expected=f"{width} fields", found=repr(line)[:80])
        yield number, fields


def _floats(path: Path, number: int, fields: list[str]) -> list[float]:
    try:
        return [float(field) for field in fields]
    except ValueError as error:
        raise CorruptFile(Where(path=str(path), record=number), expected="numbers", found=repr(fields)[:80]) from error

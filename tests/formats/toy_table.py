"""A table format as a user would write it: lines of integers, column names in the first line."""

import os
from pathlib import Path

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.records import Format, Misfit, Skipped
from headrace.contracts.schema import Schema
from headrace.errors import CorruptFile, Where
from headrace.io.write.atomic import AtomicFile

HEAD = "#toy"


class Toy:
    format = "toy"
    skipped = Skipped()

    def __init__(self, paths, *, compression=None, on_corrupt="raise", verify=True):
        self.paths = tuple(paths)
        self.rows, self.places = [], []
        for path in paths:
            lines = Path(path).read_text().splitlines()
            self.names = lines[0].split()[1:]
            for number, line in enumerate(lines[1:]):
                self.rows.append(line.split())
                self.places.append(Where(path=path, record=number))

    @property
    def schema(self):
        return Schema({name: Feature("int64") for name in self.names})

    def __len__(self):
        return len(self.rows)

    def batch(self, indices, names):
        columns = {name: [] for name in names}
        for index in indices.tolist():
            for name in names:
                try:
                    columns[name].append(int(self.rows[index][self.names.index(name)]))
                except ValueError as error:
                    place = self.where(index).at(feature=name)
                    raise CorruptFile(place, expected="an integer", found=str(error)) from error
        return {name: np.array(values, np.int64) for name, values in columns.items()}

    def where(self, index):
        return self.places[index]


class ToyWriter:
    def __init__(self, path, schema, *, compression="none"):
        self.file = AtomicFile(os.fspath(path))
        self.names = list(schema)
        self.file.write(f"{HEAD} {' '.join(self.names)}\n".encode())

    def write_batch(self, batch, n):
        for row in range(n):
            self.file.write((" ".join(str(batch[name][row]) for name in self.names) + "\n").encode())

    def close(self):
        self.file.close()

    def abort(self):
        self.file.abort()


def misfits(schema):
    return [
        Misfit(feature=name, expected="integers", found=repr(feature))
        for name, feature in schema.items()
        if (feature.dtype, feature.shape) != ("int64", ())
    ]


def join(parts, path):
    with AtomicFile(path) as out:
        for number, part in enumerate(parts):
            content = Path(part).read_bytes()
            out.write(content if number == 0 else content.partition(b"\n")[2])


FORMAT = Format(
    name="toy",
    suffixes=(".toy",),
    knows=lambda head: head.startswith(HEAD.encode()),
    open=Toy,
    sink=ToyWriter,
    misfits=misfits,
    join=join,
    compression_of=lambda paths: "only words",
)

"""Classes: integers with names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.datasets.features.tensor import Tensor
from headrace.errors import CorruptFile, SchemaMismatch, Where
from headrace.io.faults import name_in_errors

__all__ = ["ClassLabel", "names_from_file"]


class ClassLabel(Tensor):
    """A class, as ``int64``; -1 if unknown.

    Args:
        num_classes: Number of classes.
        names: Names of the classes, in order.
        names_file: A text file with one name per line.
        description, value_range: Text.

    Raises:
        ValueError: More than one of these is given, or a name occurs twice.

    >>> label = ClassLabel(names=["cat", "dog"])
    >>> label.num_classes, label.int2str(1), label.str2int("cat")
    (2, 'dog', 0)
    """

    class_name = "class_label_feature.ClassLabel"

    def __init__(
        self,
        *,
        num_classes: int | None = None,
        names: Iterable[str] | None = None,
        names_file: str | Path | None = None,
        description: str = "",
        value_range: str = "",
    ) -> None:
        super().__init__(shape=(), dtype="int64", description=description, value_range=value_range)
        if sum(given is not None for given in (num_classes, names, names_file)) > 1:
            raise ValueError("give one of num_classes, names and names_file")
        self.num_classes = num_classes
        """Number of classes; ``None`` if unknown."""
        self._names: tuple[str, ...] | None = None
        self._numbers: dict[str, int] = {}
        if names_file is not None:
            names = names_from_file(Path(names_file))
        if names is not None:
            self.set_names(names)

    @property
    def names(self) -> list[str]:
        """Names of the classes, in order; their numbers if they have no names."""
        return list(self._names) if self._names is not None else [str(i) for i in range(self.num_classes or 0)]

    @property
    def has_names(self) -> bool:
        """Whether the classes have names."""
        return self._names is not None

    def set_names(self, names: Iterable[str], *, where: Where | None = None) -> None:
        """Set the names of the classes.

        Raises:
            ValueError: A name occurs twice.
            CorruptFile: Their number is not ``num_classes``.
        """
        found = tuple(names)
        if len(set(found)) != len(found):
            raise ValueError(
                f"each class needs a different name, got {next(n for n in found if found.count(n) > 1)!r} twice"
            )
        if self.num_classes not in (None, len(found)):
            raise CorruptFile(
                where or Where(), expected=f"names of {self.num_classes} classes", found=f"{len(found)} names"
            )
        self.num_classes = len(found)
        self._names = found
        self._numbers = {name: number for number, name in enumerate(found)}

    def int2str(self, number: int) -> str:
        """The name of a class.

        Raises:
            ValueError: There is no class with that number.
        """
        if not 0 <= number < (self.num_classes or 0):
            raise ValueError(f"classes are numbered from 0 to {(self.num_classes or 0) - 1}, got {number}")
        return self._names[number] if self._names is not None else str(int(number))

    def str2int(self, name: str) -> int:
        """The number of a class.

        Raises:
            ValueError: There is no class with that name.
        """
        if self._names is not None and name in self._numbers:
            return self._numbers[name]
        if self._names is None and name.isdecimal() and int(name) < (self.num_classes or 0):
            return int(name)
        shown = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
        raise ValueError(f"expected one of the classes {shown}, found {name!r}")

    def encode_example(self, value: Any) -> Any:
        if isinstance(value, bytes):
            value = value.decode(errors="backslashreplace")
        if isinstance(value, str):
            try:
                value = self.str2int(value)
            except ValueError as error:
                raise SchemaMismatch(Where(), expected=f"a class of {self!r}", found=repr(value)) from error
        array = super().encode_example(value)
        if self.num_classes is not None and not -1 <= int(array) < self.num_classes:
            raise self.misfit(str(int(array)), expected=f"a class from -1 to {self.num_classes - 1}")
        return array

    @property
    def schema_options(self) -> dict[str, Any]:
        """The names of the classes."""
        return {} if self._names is None else {"names": self._names}

    def label_files(self, key: str) -> Iterator[tuple[str, ClassLabel]]:
        yield f"{key}.labels.txt", self

    def content(self) -> tuple[str, dict[str, Any]]:
        return "classLabel", {} if self.num_classes is None else {"numClasses": str(self.num_classes)}

    def _identity(self) -> str:
        return super()._identity() + repr(self._names)

    def _parameters(self) -> Mapping[str, Any]:
        return {"num_classes": self.num_classes}


def names_from_file(path: Path) -> list[str]:
    """Read the names in a ``.labels.txt``: one per line, without empty lines.

    Raises:
        CorruptFile: It is not UTF-8 text.
    """
    try:
        with name_in_errors(str(path)):
            text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFile(Where(path=str(path)), expected="names in UTF-8", found=str(error)) from error
    return [line.strip() for line in text.split("\n") if line.strip()]

"""What one feature looks like."""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from headrace._arguments import check_choice, check_names
from headrace._numbers import kept_mask
from headrace.contracts.feature_keys import RaggedKeys, SparseKeys, keys_from_json
from headrace.errors import did_you_mean

__all__ = ["ENCODINGS", "IMAGE_AXES", "MOST_AXES", "SEVERAL_KINDS", "USER_DEFINED", "Encoding", "Feature"]


Encoding = Literal["jpeg", "png", "gif", "bmp", "webp", "tiff", "image"]
ENCODINGS: tuple[str, ...] = ("jpeg", "png", "gif", "bmp", "webp", "tiff")
SEVERAL_KINDS: Encoding = "image"
IMAGE_AXES = 3
MOST_AXES = 31
"""Of an example. NumPy 1 has arrays of up to 32 axes, and a batch adds one."""
SHOWN_NAMES = 4
PIXELS = ("uint8", "uint16")
DTYPES = ("str", "bytes", "bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
DTYPES += ("float16", "float32", "float64", "complex64", "complex128", "datetime64[s]", "examples")
USER_DEFINED = 2
"""What NumPy says of dtypes of other packages, such as the ``bfloat16`` of JAX, which it calls ``V2``."""


@dataclass(frozen=True, slots=True)
class Feature:
    """The type of one named array.

    Args:
        dtype: A NumPy dtype (name or object; kept as its native-endian name), ``"bytes"``, ``"str"`` for UTF-8 text, or
            ``"examples"`` for sequences of examples inside an example, read lazily (the steps of an episode).
        shape: Axis lengths. ``None`` is a length that varies between examples; ``()`` is a scalar.
        default: The value if an example that is read lacks the feature: a scalar that fills ``shape``, or values of that shape.
            ``None``: a missing feature of fixed shape is an error, and one of varying length is empty.
        encoding: The encoding of stored images: ``"jpeg"``, ``"png"``, ``"gif"``, ``"bmp"``, ``"webp"``, ``"tiff"``, or
            ``"image"`` for several kinds. With dtype ``"bytes"`` the values are encoded images; with ``uint8`` and
            ``uint16`` they are decoded on access, and the last three axes are height, width and channels.
        sparse: The feature is a sparse vector: rows are ``scipy.sparse`` rows, batches ``csr_array``.
        steps: The first axis counts the steps of a sequence. tf.Example files store such a feature as a feature list of a
            SequenceExample.
        names: The class names of a label, for the integers from 0.
        keys: :class:`SparseKeys` or :class:`RaggedKeys`, if several lists of a tf.Example form the feature. They also
            define the shape.

    Raises:
        ValueError, TypeError: the parts do not fit together.

    >>> Feature("float32", (28, 28))
    Feature('float32', (28, 28))
    """

    dtype: str
    shape: tuple[int | None, ...] = ()
    default: Any = None
    encoding: Encoding | None = None
    sparse: bool = False
    steps: bool = False
    names: tuple[str, ...] | None = None
    keys: SparseKeys | RaggedKeys | None = None

    def __init__(
        self,
        dtype: str | np.dtype[Any] | type,
        shape: tuple[int | None, ...] | list[int | None] = (),
        *,
        default: Any = None,
        encoding: Encoding | None = None,
        sparse: bool = False,
        steps: bool = False,
        names: Sequence[str] | None = None,
        keys: SparseKeys | RaggedKeys | None = None,
    ) -> None:
        put = object.__setattr__  # frozen: this is the one place that may set
        put(self, "dtype", _dtype_name(dtype))
        put(self, "shape", _parse_shape(shape) or getattr(keys, "shape", ()))
        put(self, "keys", keys)
        put(self, "encoding", encoding)
        sparse = sparse or isinstance(keys, SparseKeys)
        put(self, "sparse", sparse)
        put(self, "steps", steps)
        if names is not None:
            check_names(names, "names")
        put(self, "names", None if names is None else tuple(names))
        put(self, "default", self._parse_default(default))
        self._check_encoding()
        self._check_keys()
        self._check_names()
        if sparse and (self.is_text or len(self.shape) != 1):
            raise ValueError(f"a sparse feature is numeric with one axis, got {self.dtype!r} with shape {self.shape}")
        if steps and (sparse or len(self.shape) == (IMAGE_AXES if self.is_image else 0)):
            raise ValueError(f"a feature of steps has a first axis that counts them, got shape {self.shape}")

    @property
    def is_text(self) -> bool:
        """Whether values are ``bytes`` or ``str`` rather than numbers."""
        return self.dtype in ("bytes", "str")

    @property
    def is_image(self) -> bool:
        """Whether values are decoded images: arrays whose last three axes are height, width and channels."""
        return self.encoding is not None and not self.is_text

    @property
    def stored(self) -> Feature:
        """The feature as stored in a file: encoded for decoded images, otherwise unchanged."""
        if not self.is_image:
            return self
        return Feature("bytes", self.shape[:-IMAGE_AXES], encoding=self.encoding, steps=self.steps)

    @property
    def is_fixed(self) -> bool:
        """Whether every example holds the same number of values."""
        return None not in self.shape

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of a batch column: ``object`` for ``bytes``, ``str`` and ``examples``."""
        return np.dtype(object if self.is_text or self.dtype == "examples" else self.dtype)

    @property
    def count(self) -> int:
        """The number of values in one example; -1 if it varies."""
        fixed = [length for length in self.shape if length is not None]
        return math.prod(fixed) if self.is_fixed else -1

    def _check_encoding(self) -> None:
        if self.encoding is None:
            return
        check_choice(self.encoding, "encoding", (*ENCODINGS, SEVERAL_KINDS))
        if self.dtype != "bytes" and (self.dtype not in PIXELS or len(self.shape) < IMAGE_AXES):
            raise ValueError(
                "an encoding goes with 'bytes', or with 'uint8' or 'uint16' whose last axes are height, width and channels; "
                f"got {self.dtype!r} with shape {self.shape}"
            )

    def _check_names(self) -> None:
        if self.names is None:
            return
        if not np.issubdtype(self.numpy_dtype, np.integer):
            raise ValueError(f"names go with integers, got {self.dtype!r}")
        if len(set(self.names)) != len(self.names) or not all(isinstance(name, str) for name in self.names):
            raise ValueError(f"names are different strings, got {self.names}")

    def _check_keys(self) -> None:
        if self.keys is None:
            return
        if not isinstance(self.keys, (SparseKeys, RaggedKeys)):
            raise TypeError(f"keys are SparseKeys(...) or RaggedKeys(...), got {self.keys!r}")
        if self.shape != self.keys.shape:
            raise ValueError(f"{self.keys!r} makes the shape {self.keys.shape}, got {self.shape}")
        if self.default is not None or self.encoding is not None or self.steps:
            raise ValueError("a feature with keys has no default, encoding or steps")
        if self.sparse and isinstance(self.keys, RaggedKeys):
            raise ValueError("RaggedKeys make no sparse feature")

    def _parse_default(self, default: Any) -> Any:
        """The default as plain Python values (hashable, JSON), after a check that it fits dtype and shape."""
        if default is None:
            return None
        values = np.asarray(default, dtype=object) if self.is_text else np.asarray(default)
        is_held = _holds_text(self.dtype, values) if self.is_text else _holds(self.dtype, values)
        if not is_held:
            raise TypeError(f"default {default!r} does not fit dtype {self.dtype}")
        if self.numpy_dtype.kind in "mM":
            values = values.astype(self.dtype)  # tolist() gives the units of the dtype, or what counts them
        if values.shape != () and self.is_fixed and values.shape != self.shape:
            raise ValueError(f"default must be a scalar or of shape {self.shape}, got shape {values.shape}")
        return _as_tuples(values.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Feature):
            return NotImplemented
        # Two of ten thousand columns mostly share one, or differ in dtype.
        return self is other or (self.dtype == other.dtype and self._identity() == other._identity())

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Any, ...]:
        """The fields, with NaN as a word: NaN differs from itself."""
        return (
            *(self.dtype, self.shape, _without_nan(self.default), self.encoding),
            *(self.sparse, self.steps, self.names, self.keys),
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back."""
        out: dict[str, Any] = {"dtype": self.dtype, "shape": list(self.shape)}
        if self.default is not None:
            is_time = self.numpy_dtype.kind in "mM"
            counts = np.array(self.default, self.dtype).astype(np.int64).tolist() if is_time else self.default
            out["default"] = _jsonable(counts)
        if self.encoding is not None:
            out["encoding"] = self.encoding
        if self.sparse:
            out["sparse"] = True
        if self.steps:
            out["steps"] = True
        if self.names is not None:
            out["names"] = list(self.names)
        if self.keys is not None:
            out["keys"] = self.keys.to_json()
        return out

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Feature:
        """The feature that :meth:`to_json` wrote.

        Raises:
            ValueError: The default is a number that the dtype cannot hold.
        """
        default = _from_jsonable(value.get("default"))
        if default is not None and value["dtype"].startswith(("M8", "m8")):
            try:
                default = np.array(default, np.int64).view(value["dtype"])
            except OverflowError:
                raise ValueError(f"expected a default that {value['dtype']} holds, found {default!r:.60}") from None
        return cls(
            value["dtype"],
            tuple(value.get("shape", ())),
            default=default,
            encoding=value.get("encoding"),
            sparse=value.get("sparse", False),
            steps=value.get("steps", False),
            names=value.get("names"),
            keys=keys_from_json(value.get("keys")),
        )

    def __repr__(self) -> str:
        parts = [repr(self.dtype)]
        if self.shape and self.keys is None:
            parts.append(repr(self.shape))
        if self.default is not None:
            parts.append(f"default={self.default!r}")
        if self.encoding is not None:
            parts.append(f"encoding={self.encoding!r}")
        if self.sparse and self.keys is None:
            parts.append("sparse=True")
        if self.steps:
            parts.append("steps=True")
        if self.names is not None:
            parts.append(f"names={_shorten(self.names)}")
        if self.keys is not None:
            parts.append(f"keys={self.keys!r}")
        return f"Feature({', '.join(parts)})"


def _shorten(names: tuple[str, ...]) -> str:
    return repr(names) if len(names) <= SHOWN_NAMES else f"({', '.join(map(repr, names[:SHOWN_NAMES]))}, ...)"


def _dtype_name(dtype: str | np.dtype[Any] | type) -> str:
    if dtype in ("bytes", bytes):
        return "bytes"
    if dtype in ("str", str):
        return "str"
    if isinstance(dtype, str) and dtype == "examples":
        return "examples"
    if dtype is None:
        raise TypeError("a feature needs a dtype, got None")
    try:
        known = np.dtype(dtype)
    except (TypeError, SyntaxError) as error:  # NumPy parses names such as "2i4"
        raise TypeError(f"data type {dtype!r:.60} not understood{_hint_for(dtype)}") from error
    if known.kind == "O":
        raise TypeError("object arrays have no fixed meaning in a file; use 'bytes', 'str' or a numeric dtype")
    if known.names is not None:
        raise TypeError(f"a feature is one array, not a structured one: make a feature of each field of {known}")
    if known.subdtype is not None:
        raise TypeError(f"a feature has its shape apart from its dtype: Feature({known.base.name!r}, {known.shape})")
    if known.kind in "SUVmM" and known.isbuiltin != USER_DEFINED:
        return known.newbyteorder("=").str.lstrip("<>=|")
    return known.name


def _hint_for(dtype: Any) -> str:
    """The dtype that may be meant."""
    if dtype in ("string", "text"):
        return ": text is 'str'"
    hint = did_you_mean(dtype, DTYPES)
    return f". {hint}" if hint else ""


def _holds(dtype: str, values: npt.NDArray[Any]) -> bool:
    """Whether a dtype can hold the values of a default: integers by their size, floats by their range, others by their kind."""
    wanted = np.dtype(dtype)
    if wanted.kind in "iu" and values.dtype.kind in "iu":
        limits = np.iinfo(wanted)
        return all(limits.min <= value <= limits.max for value in values.reshape(-1).tolist())
    if wanted.kind in "fc" and values.dtype.kind in f"iuf{wanted.kind}":
        with np.errstate(over="ignore"):
            return bool((np.isfinite(values.astype(wanted)) | ~np.isfinite(values)).all())
    if wanted.kind in "mMUS" and wanted.kind == values.dtype.kind:
        with suppress(OverflowError):  # days in attoseconds
            return bool(kept_mask(values, values.astype(wanted)).all())
        return False
    return wanted.kind not in "US" and np.can_cast(values.dtype, wanted, "same_kind")


def _holds_text(dtype: str, values: npt.NDArray[Any]) -> bool:
    """Whether defaults are text or bytes: bytes for text are UTF-8, and text has no lone surrogates."""
    flat = values.reshape(-1).tolist()
    if not all(isinstance(value, (str, bytes)) for value in flat):
        return False
    try:
        for value in flat:
            if isinstance(value, str):
                value.encode()
            elif dtype == "str":
                value.decode()
    except UnicodeError:
        return False
    return True


def _parse_shape(shape: Any) -> tuple[int | None, ...]:
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Iterable):
        raise TypeError(f"a shape is a tuple of axis lengths, got {shape!r}")
    try:
        checked = tuple(None if length is None else operator.index(length) for length in shape)
    except TypeError:
        raise TypeError(f"axis lengths are integers (None where they vary), got {shape!r:.60}") from None
    if len(checked) > MOST_AXES:
        raise ValueError(f"a feature has at most {MOST_AXES} axes, got {len(checked)}")
    if any(length is not None and length < 0 for length in checked):
        raise ValueError(f"axis lengths are 0 or more (None where they vary), got {shape}")
    return checked


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(item) for item in value) if isinstance(value, list) else value


def _without_nan(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_without_nan(item) for item in value)
    if isinstance(value, complex):
        return _without_nan((value.real, value.imag)) if cmath.isnan(value) else value
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def _jsonable(value: Any) -> Any:
    """JSON has no bytes, complex numbers, NaN or infinity."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, complex):
        return {"complex": [_jsonable(value.real), _jsonable(value.imag)]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def _from_jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        if "float" in value:
            return float(value["float"])
        if "complex" in value:
            return complex(*_from_jsonable(value["complex"]))
        return bytes.fromhex(value["hex"])
    if isinstance(value, list):
        return [_from_jsonable(item) for item in value]
    return value

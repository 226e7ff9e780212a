"""Sequences: several values of one type per example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Values
from typing import Any

from headrace.datasets.features.base import DatasetFeature, DtypeLike, LeafFeature, Level, shape_json
from headrace.datasets.features.image import Image
from headrace.datasets.features.mapping import FeatureLike, FeaturesDict, as_feature
from headrace.errors import SchemaMismatch, UnsupportedData, Where

__all__ = ["Dataset", "SelectedSteps", "Sequence", "Video"]


class Sequence(DatasetFeature):
    """A sequence of values; for named features, one sequence per name.

    Args:
        feature: Type of an element: a feature, a dict of features, or a dtype.
        length: Number of elements; ``None`` if it varies.
        description, value_range: Text.

    >>> Sequence({"bbox": Tensor(shape=(4,), dtype="float32"), "label": "int64"}).shape
    {'bbox': (None, 4), 'label': (None,)}
    """

    class_name = "sequence_feature.Sequence"

    def __init__(
        self, feature: FeatureLike, length: int | None = None, *, description: str = "", value_range: str = ""
    ) -> None:
        super().__init__(description=description, value_range=value_range)
        self.feature: DatasetFeature = as_feature(feature)
        """The type of one element."""
        self.length = length
        """Number of elements; ``None`` if it varies."""

    @property
    def shape(self) -> Any:
        return _map_values(self.feature.shape, lambda shape: (self.length, *shape))

    @property
    def dtype(self) -> Any:
        return self.feature.dtype

    def leaves(self, key: str, levels: tuple[Level, ...]) -> Iterator[tuple[str, LeafFeature, tuple[Level, ...]]]:
        return self.feature.leaves(key, (*levels, self.length))

    def encode_example(self, value: Any) -> list[Any]:
        """Encode the elements.

        Args:
            value: A list or array of elements, an iterator over them, or a dict of lists.
        """
        if isinstance(value, str):
            raise SchemaMismatch(Where(), expected="a list of elements", found=f"the text {value!r:.40}")
        elements = transpose(value) if isinstance(value, Mapping) else list(value)
        if self.length is not None and len(elements) != self.length:
            raise SchemaMismatch(Where(), expected=f"{self.length} elements", found=str(len(elements)))
        return [self.feature.encode_example(element) for element in elements]

    def content(self) -> tuple[str, dict[str, Any]]:
        length = str(-1 if self.length is None else self.length)
        return "sequence", {"feature": self.feature.to_json(), "length": length}

    def label_files(self, key: str) -> Iterator[tuple[str, Any]]:
        return self.feature.label_files(key)

    def __getitem__(self, name: str) -> DatasetFeature:
        return self.feature[name]  # type: ignore[index, no-any-return]

    def __contains__(self, name: object) -> bool:
        return isinstance(self.feature, (FeaturesDict, Sequence)) and name in self.feature

    def __iter__(self) -> Iterator[str]:
        """The names of the features of an element, if they have names."""
        return iter(self.feature)  # type: ignore[call-overload, no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "feature" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.feature, name)  # as TFDS does: Sequence(ClassLabel(...)).num_classes

    def _identity(self) -> str:
        return super()._identity() + self.feature._identity()

    def __repr__(self) -> str:
        length = "" if self.length is None else f", length={self.length}"
        return f"{type(self).__name__}({self.feature!r}{length})"


class Video(Sequence):
    """A sequence of images.

    Args:
        shape: ``(frames, height, width, channels)``, ``None`` for varying axes.
        encoding_format: Encoding of frames that are arrays: ``"png"`` or ``"jpeg"``.
        ffmpeg_extra_args: Arguments that TFDS passed to ffmpeg; kept, not used.
        use_colormap, dtype: As in :class:`Image`.
        description, value_range: Text.
    """

    class_name = "video_feature.Video"

    def __init__(
        self,
        *,
        shape: Values[int | None] | None = None,
        encoding_format: str | None = "png",
        ffmpeg_extra_args: Values[str] = (),
        use_colormap: bool = False,
        dtype: DtypeLike | None = None,
        description: str = "",
        value_range: str = "",
    ) -> None:
        if shape is not None and len(shape) != 4:
            raise ValueError(f"a video is (frames, height, width, channels), got {tuple(shape)}")
        frame = Image(
            shape=None if shape is None else shape[1:],
            dtype=dtype,
            encoding_format=encoding_format,
            use_colormap=use_colormap,
        )
        length = None if shape is None else shape[0]
        super().__init__(frame, length, description=description, value_range=value_range)
        self.ffmpeg_extra_args: tuple[str, ...] = tuple(ffmpeg_extra_args)

    def encode_example(self, value: Any) -> list[Any]:
        """Encode a list or array of frames as image files."""
        if isinstance(value, (bytes, str)) or hasattr(value, "read"):
            raise UnsupportedData(
                Where(),
                expected="frames",
                found="a video file",
                hint="Split it into frames first, for example with ffmpeg or PyAV.",
            )
        return super().encode_example(value)

    def content(self) -> tuple[str, dict[str, Any]]:
        frame: Image = self.feature  # type: ignore[assignment]
        out: dict[str, Any] = {"shape": shape_json((self.length, *frame.shape)), "dtype": frame.declared_dtype}
        if frame.encoding_format:
            out["encodingFormat"] = frame.encoding_format
        if frame.use_colormap:
            out["useColormap"] = True
        if self.ffmpeg_extra_args:
            out["ffmpegExtraArgs"] = list(self.ffmpeg_extra_args)
        return "video", out

    def __repr__(self) -> str:
        return f"Video(shape={self.shape}, dtype={self.feature.dtype})"


class Dataset(Sequence):
    """A dataset inside each example, read lazily: the steps of an episode (RLDS).

    Its value is a sequence of examples with ``len``, indices, slices and ``batch``, which are decoded on access.

    Args:
        feature: Type of an example.
        length: Number of examples; ``None`` if it varies.
        description, value_range: Text.
    """

    class_name = "dataset_feature.Dataset"

    def leaves(self, key: str, levels: tuple[Level, ...]) -> Iterator[tuple[str, Any, tuple[Level, ...]]]:
        if levels:
            raise UnsupportedData(
                Where(feature=key), expected="a Dataset that is in no Sequence or Dataset", found="one that is"
            )
        yield key, self, levels

    def inner_leaves(self, key: str) -> list[tuple[str, LeafFeature, tuple[Level, ...]]]:
        """The features of its examples, as :meth:`leaves` of a sequence gives them.

        Raises:
            UnsupportedData: One of them is a Dataset.
        """
        return list(self.feature.leaves(key, (self.length,)))


class SelectedSteps(Dataset):
    """Some features of a dataset inside each example, where the others are not read.

    Args:
        dataset: The dataset.
        keys: The keys of these features, as :meth:`inner_leaves` gives them.
    """

    def __init__(self, dataset: Dataset, keys: Values[str]) -> None:
        super().__init__(
            dataset.feature, dataset.length, description=dataset.description, value_range=dataset.value_range
        )
        self._keys = tuple(keys)

    def inner_leaves(self, key: str) -> list[tuple[str, LeafFeature, tuple[Level, ...]]]:
        return [leaf for leaf in super().inner_leaves(key) if leaf[0] in self._keys]

    def _identity(self) -> str:
        return super()._identity() + repr(self._keys)


def transpose(columns: Mapping[str, Any]) -> list[Any]:
    """Convert a dict of lists to a list of dicts.

    Raises:
        SchemaMismatch: The lists differ in length.
    """
    plain = {name: transpose(v) if isinstance(v, Mapping) else list(v) for name, v in columns.items()}
    lengths = {name: len(values) for name, values in plain.items()}
    if len(set(lengths.values())) > 1:
        raise SchemaMismatch(Where(), expected="lists of equal length", found=str(lengths))
    return [{name: values[i] for name, values in plain.items()} for i in range(next(iter(lengths.values()), 0))]


def _map_values(value: Any, function: Any) -> Any:
    return {k: _map_values(v, function) for k, v in value.items()} if isinstance(value, dict) else function(value)

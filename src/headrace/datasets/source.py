"""Sources over splits of prepared datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.contracts.records import Records
from headrace.contracts.values import Batch, Example, Indices
from headrace.datasets.codec import FeaturesCodec
from headrace.datasets.features.base import DatasetFeature
from headrace.datasets.features.mapping import FeaturesDict
from headrace.datasets.features.sequence import Dataset, Sequence
from headrace.datasets.prepared import Prepared, PreparedSplit, leaf_names
from headrace.datasets.steps import StepsNode, find_steps
from headrace.errors import CorruptFile, DataError, NoSuchFeature, Where
from headrace.sources.node import Node, encoded_node
from headrace.sources.records import RecordNode
from headrace.sources.source import Source
from headrace.sources.views import check_names

__all__ = ["PreparedSource", "SplitNode"]


class SplitNode(RecordNode):
    """All examples of a split, in file order. Files are opened when they are read.

    Args:
        records: Records of its files.
        codec: Decodes them.
        prepared, split: Their description in the folder.
    """

    codec: FeaturesCodec

    def __init__(self, records: Records, codec: FeaturesCodec, prepared: Prepared, split: PreparedSplit) -> None:
        super().__init__(records, codec)
        self.prepared = prepared
        self.split_entry = split
        self._is_checked = False

    def __len__(self) -> int:
        known = self.split_entry.num_examples
        return len(self.records) if known is None else known

    def batch(self, indices: Indices, /) -> Batch:
        self._check()
        return super().batch(indices)

    def example(self, index: int, /) -> Example:
        """Read one example, without the overhead of a batch."""
        self._check()
        payload = self.records[index]
        try:
            return self.codec.decode(payload)
        except DataError as error:
            raise error.relocated(self.records.where(index)) from error.__cause__

    def examples(self) -> Iterator[Example]:
        self._check()
        return super().examples()

    def narrow(self, names: tuple[str, ...], /) -> Node:
        return SplitNode(self.records, self.codec.narrowed(names), self.prepared, self.split_entry)

    def encoded(self) -> Node:
        return SplitNode(self.records, self.codec.encoded(), self.prepared, self.split_entry)

    def cuts_cleanly(self) -> bool:
        return self.codec.cuts_cleanly

    def _check(self) -> None:
        """Compare the numbers of examples in the files with the description, once."""
        if self._is_checked:
            return
        said = self.split_entry.shard_lengths
        found = self.records.lengths  # type: ignore[attr-defined]
        expected = said if said is None else tuple(length for length in said if length)
        if expected is not None and tuple(found) != expected:
            bad = next(i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b)
            raise CorruptFile(
                Where(path=self.records.paths[bad]),
                expected=f"{expected[bad]} examples, as dataset_info.json says",
                found=str(found[bad]),
                hint="The preparation was interrupted, or a file was replaced: prepare the dataset again.",
            )
        self._is_checked = True


class PreparedSource(Source):
    """A part of a prepared dataset: a source with the metadata of TFDS.

    Nested features are named by path: ``bbox`` inside ``objects`` is ``objects/bbox``.

    Attributes:
        prepared: The description of the folder: name, version, splits, ...
        name: The split, as the caller named it.
    """

    def __init__(self, node: Node, codec: FeaturesCodec, prepared: Prepared, name: str) -> None:
        super().__init__(node)
        self.codec = codec
        self.prepared = prepared
        self.name = name

    @property
    def features(self) -> DatasetFeature:
        """The declared features: ``source.features["label"].num_classes``, ``source.features["objects/bbox"].shape``."""
        return self.prepared.features

    @property
    def supervised_keys(self) -> Any:
        """Names of input and target, ``("image", "label")``; ``None`` if the dataset has none."""
        return self.prepared.supervised_keys

    def supervised(self) -> Source:
        """Select the features that :attr:`supervised_keys` names. The others are not decoded.

        Raises:
            NoSuchFeature: The dataset has no supervised keys.
        """
        if self.supervised_keys is None:
            raise NoSuchFeature(
                Where(path=str(self.prepared.folder)),
                expected="supervised keys in dataset_info.json",
                found="none",
                hint="Select features by name: source.select('image', 'label').",
            )
        return self.select(*leaf_names(self.supervised_keys))

    def steps(self, feature: str | None = None, *, episode: str = "episode_id", step: str = "step_id") -> Source:
        """Every step of every episode as an example, with random access.

        The episodes are read once, without decoding images, to count their steps, when the length or a step is first asked for. Reading
        a step then reads its episode and decodes that step.

        Args:
            feature: The feature that holds the steps; by default the only one.
            episode, step: Names of two features that are added, ``int64 ()``: the index of the episode in this source, and that of the step in
                the episode.

        Raises:
            NoSuchFeature, UnsupportedData: The dataset has no steps.
            SchemaMismatch: On first use: a step has a feature of such a name.
        """
        return Source(StepsNode(self.node, find_steps(self.schema) if feature is None else feature, episode, step))

    def nested(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Convert an example or a batch to nested dicts, as in TFDS: ``{"objects": {"bbox": ...}}``.

        Steps of episodes stay as they are: the features of a step are named by path.
        """
        found: dict[str, Any] = _nest(self.features, values, "")
        return found

    def select(self, *names: str) -> Source:
        """Select features, in this order. The others are not decoded. ``objects`` selects all ``objects/...``."""
        keys = [key for name in check_names(names) for key in self._keys(name)]
        return super().select(*dict.fromkeys(keys))

    def _keys(self, name: str) -> list[str]:
        inside = [key for key in self.schema if key.startswith(name + "/")]
        return [name] if name in self.schema or not inside else inside

    def encoded(self) -> PreparedSource:
        """This source with images as encoded bytes."""
        return PreparedSource(encoded_node(self.node), self.codec.encoded(), self.prepared, self.name)

    def with_node(self, node: Node, /) -> PreparedSource:
        """A part of the same split."""
        return PreparedSource(node, self.codec, self.prepared, self.name)

    def __repr__(self) -> str:
        count = f"{len(self)} examples" if next(self.filters(), None) is None else "filtered examples"
        return f"<{self.prepared.full_name} {self.name!r} of {count}: {', '.join(self.schema)}>"


def _nest(features: DatasetFeature, values: Mapping[str, Any], key: str) -> Any:
    inner = features
    while isinstance(inner, Sequence) and not isinstance(inner, Dataset):
        inner = inner.feature
    if not isinstance(inner, FeaturesDict):
        # A skipped feature may be several values: its shape and its memory.
        return values[key] if key in values else _values_below(values, key)
    out = {}
    for name, feature in inner.items():
        path = f"{key}/{name}" if key else name
        if path in values or _values_below(values, path):
            out[name] = _nest(feature, values, path)
    return out


def _values_below(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    start = f"{key}/" if key else ""
    return {name[len(start) :]: value for name, value in values.items() if name.startswith(start)}

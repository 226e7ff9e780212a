"""What users of other libraries call, and what does the same here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["FOR_LOADERS", "FOR_SOURCES", "explain_missing"]

FOR_SOURCES = MappingProxyType(
    {
        # tf.data
        "shuffle": "hr.Loader(source, batch_size, shuffle=True, seed=0) shuffles every epoch; source.sample(len(source)) shuffles once",
        "repeat": "hr.Loader(source, batch_size, epochs=10) repeats; epochs=None repeats forever",
        "prefetch": "hr.Loader(source, batch_size, prefetch=2) reads ahead, and does so by default",
        "padded_batch": "hr.Loader(source, batch_size, map_batch=hr.Pad('feature')) pads",
        "ragged_batch": "hr.Loader(source, batch_size) gives hr.Ragged where lengths vary",
        "bucket_by_sequence_length": "hr.Loader(source, batch_size, map_batch=hr.Bucket('feature', bounds=(...))) sorts by length",
        "interleave": "hr.open([paths]) reads several files; hr.Mixture({one: 3, other: 1}) interleaves sources",
        "concatenate": "source.concat(other) appends",
        "enumerate": "enumerate(source) counts",
        "cardinality": "len(source) is the number of examples",
        "element_spec": "source.schema has the types",
        "as_numpy_iterator": "'for example in source' gives NumPy values",
        "numpy": "source.to_numpy() reads a matrix and its labels",
        "unbatch": "source.flat_map(function) makes several examples of one",
        "apply": "source.map(function) changes each example; Loader(map_batch=function) whole batches",
        "reduce": "loop over hr.Loader(source, batch_size), or use functools.reduce",
        "snapshot": "source.cache(folder, key='...') stores examples",
        "save": "hr.write(path, source) writes a file",
        "random": "source.map(function, seeded=True) hands random numbers to the function",
        "get_single_element": "source[0] is an example",
        # Hugging Face datasets
        "train_test_split": "source.random_split([0.8, 0.2], seed=0) divides",
        "column_names": "list(source.schema) has the names",
        "features": "source.schema has the types",
        "num_rows": "len(source) is the number of examples",
        "num_columns": "len(source.schema) is the number of features",
        "rename_column": "source.rename({'old': 'new'}) renames",
        "rename_columns": "source.rename({'old': 'new'}) renames",
        "remove_columns": "source.select('one', 'other') keeps features",
        "select_columns": "source.select('one', 'other') keeps features",
        "add_column": "source.zip(hr.ColumnSource({'name': values})) adds a feature",
        "cast_column": "source.map(function), or hr.open(path, schema=...), changes a type",
        "with_format": "hr.Loader(source, batch_size, to='torch') converts batches",
        "set_format": "hr.Loader(source, batch_size, to='torch') converts batches",
        "with_transform": "source.map(function) changes examples when they are read",
        "set_transform": "source.map(function) changes examples when they are read",
        "to_iterable_dataset": "iter(source) reads in order",
        "to_tf_dataset": "hr.Loader(source, batch_size) gives batches of NumPy arrays",
        "save_to_disk": "hr.write(path, source) writes a file",
        "to_parquet": "hr.write('x.parquet', source) writes a file",
        "to_csv": "hr.write('x.csv', source) writes a file",
        "to_json": "hr.write('x.jsonl', source) writes a file",
        "flatten": "a feature inside another is named 'outer/inner'",
        "unique": "numpy.unique(source['feature']) finds the values",
        # pandas and Polars
        "iloc": "source[3] is an example, source[3:9] a source, source[mask] those of a mask",
        "loc": "source[mask] chooses, as in source[source['label'] == 3]",
        "at": "source[3]['feature'] is a value",
        "columns": "list(source.schema) has the names",
        "dtypes": "source.schema has the types",
        "shape": "(len(source), len(source.schema)) is the shape",
        "size": "len(source) is the number of examples",
        "values": "source.to_numpy() reads a matrix and its labels",
        "tail": "source[-5:] are the last ones",
        "query": "source.filter(function), or source[source['label'] == 3], chooses",
        "sort_values": "source.sort('feature', descending=False) sorts",
        "nlargest": "source.sort('feature', descending=True).head(n) are the largest",
        "nsmallest": "source.sort('feature').head(n) are the smallest",
        "drop": "source.select('one', 'other') keeps features",
        "dropna": "source.filter(function) leaves examples out",
        "fillna": "source.map(function) changes values; hr.Feature(..., default=0) fills in a missing feature",
        "groupby": "source.to_pandas() gives a frame to group",
        "merge": "source.zip(other) joins examples side by side",
        "join": "source.zip(other) joins examples side by side",
        "append": "source.concat(other) appends",
        "extend": "source.concat(other) appends",
        "iterrows": "'for example in source' gives the examples",
        "itertuples": "'for example in source' gives the examples",
        "to_dict": "source.batch(range(len(source))) has all columns",
        "describe": "'headrace stats PATH' shows numbers of each feature",
        "info": "print(source.schema) shows the types",
        # PyTorch and Grain
        "to_torch": "hr.Loader(source, batch_size, to='torch') gives tensors",
        "to_map_dataset": "grain.MapDataset.source(source) takes a source",
        "seed": "hr.Loader(source, batch_size, shuffle=True, seed=0) has the seed",
        "state_dict": "hr.Loader(source, batch_size).state_dict() is the position of a loop",
        "epochs": "hr.Loader(source, batch_size, epochs=10) repeats",
    }
)
"""Names that a source does not have, and the call to write."""

_FIRST = "hr.Loader(source.{call}, batch_size): choose examples before they are read into batches"

FOR_LOADERS = MappingProxyType(
    {
        "take": _FIRST.format(call="take(n)") + ". itertools.islice(loader, n) takes batches",
        "head": _FIRST.format(call="head(n)"),
        "skip": _FIRST.format(call="skip(n)") + ". load_state_dict(state) goes on where a loop stopped",
        "map": "hr.Loader(source.map(function), ...) changes examples; hr.Loader(source, batch_size, map_batch=function) batches",
        "filter": _FIRST.format(call="filter(function)"),
        "select": _FIRST.format(call="select('feature')"),
        "shuffle": "hr.Loader(source, batch_size, shuffle=True, seed=0) shuffles",
        "batch": "hr.Loader(source, batch_size) has the size of batches as its second argument",
        "repeat": "hr.Loader(source, batch_size, epochs=10) repeats; epochs=None repeats forever",
        "prefetch": "hr.Loader(source, batch_size, prefetch=2) reads ahead, and does so by default",
        "cache": "hr.Loader(source.cache(folder, key='...'), batch_size) stores examples",
        "dataset": "loader.source is the source",
        "num_workers": "hr.Loader(source, batch_size, workers=4) has worker processes",
        "collate_fn": "hr.Loader(source, batch_size, map_batch=function) changes batches",
        "set_epoch": "a loader goes on to the next epoch by itself; loader.epoch is its number",
        "schema": "loader.source.schema has the types of examples",
        "as_numpy_iterator": "'for batch in loader' gives NumPy arrays",
        "with_format": "hr.Loader(source, batch_size, to='torch') converts batches",
    }
)
"""The same for loaders."""


def explain_missing(advice: Mapping[str, str]) -> Callable[[Any, str], Any]:
    """A ``__getattr__`` whose error names the call that does it here. Python itself adds a name that is close.

    Define it for Python only (``if not TYPE_CHECKING``): a type checker would think that the object has every attribute.

    Args:
        advice: Names that the object does not have, and what to write instead.
    """

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807
        own = getattr(type(self), name, None)
        if own is not None:  # a property that raised AttributeError: raise it again
            return own.__get__(self)
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        hint = advice.get(name)
        raise AttributeError(f"{message}. {hint}." if hint else message, name=name, obj=self)

    return __getattr__

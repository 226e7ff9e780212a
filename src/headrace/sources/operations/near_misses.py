"""What users of other libraries call, and what does the same here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["FOR_COLUMNS", "FOR_LOADERS", "FOR_MIXTURES", "FOR_PACKAGE", "FOR_SOURCES", "explain_missing"]

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
        "sample_from_datasets": "hr.Mixture({one: 3, other: 1}) mixes sources",
        "steps": "hr.data_source(name, split).steps() is a source of all steps: call it before map(), select() and concat()",
        "choose_from_datasets": "hr.Mixture({one: 3, other: 1}) mixes sources",
        "rejection_resample": "hr.Mixture({one: 3, other: 1}) mixes sources in exact proportions",
        "from_tensor_slices": "hr.ColumnSource({'name': array}) is a source of arrays",
        "from_generator": "hr.from_generator(function) is a source of what a generator yields",
        "list_files": "hr.open('folder/*.tfrecord') opens all files of a pattern",
        "ignore_errors": "hr.open(path, on_corrupt='skip') leaves damaged records out",
        "group_by_window": "hr.Loader(source, batch_size, map_batch=hr.Bucket('feature', bounds=(...))) sorts by length",
        "rebatch": "hr.Loader(source, batch_size) has the size of batches as its second argument",
        "take_while": "source.filter(function) chooses; 'for example in source' can be left with break",
        "scan": "loop over hr.Loader(source, batch_size), or use itertools.accumulate",
        "options": "hr.Loader(source, batch_size, threads=, workers=, prefetch=) has the options",
        "with_options": "hr.Loader(source, batch_size, threads=, workers=, prefetch=) has the options",
        "load": "hr.open(path) opens files",
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
        "cast": "source.map(function), or hr.open(path, schema=...), changes types",
        "class_encode_column": "numpy.unique(source['feature'], return_inverse=True) numbers the values",
        "iter": "hr.Loader(source, batch_size) iterates over batches",
        "to_list": "list(source) has all examples",
        "add_item": "source.concat([example]) appends",
        "load_from_disk": "hr.open(path) opens files",
        "from_csv": "hr.open('x.csv') opens a file",
        "from_json": "hr.open('x.jsonl') opens a file",
        "from_parquet": "hr.open('x.parquet') opens a file",
        "from_dict": "hr.ColumnSource({'name': array}) is a source of arrays",
        "from_list": "hr.open([example, ...]) is a source of examples",
        "from_pandas": "hr.open(frame) is a source of a frame",
        "formatted_as": "hr.Loader(source, batch_size, to='torch') converts batches",
        "reset_format": "hr.Loader(source, batch_size) gives batches of NumPy arrays",
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
        "describe": "hr.stats(source) has the numbers of each feature",
        "agg": "source.to_pandas() gives a frame to aggregate",
        "aggregate": "source.to_pandas() gives a frame to aggregate",
        "group_by": "source.to_pandas() gives a frame to group",
        "pivot_table": "source.to_pandas() gives a frame to pivot",
        "mean": "hr.stats(source) has the numbers of each feature",
        "std": "hr.stats(source) has the numbers of each feature",
        "min": "hr.stats(source) has the numbers of each feature",
        "max": "hr.stats(source) has the numbers of each feature",
        "sum": "numpy.sum(source['feature']) reads one feature",
        "nunique": "hr.stats(source) has the numbers of each feature",
        "value_counts": "numpy.unique(source['feature'], return_counts=True) counts",
        "isna": "hr.stats(source) counts missing values; numpy.isnan(source['feature']) finds them",
        "isnull": "hr.stats(source) counts missing values; numpy.isnan(source['feature']) finds them",
        "hist": "hr.view(source) shows histograms",
        "plot": "hr.view(source) shows histograms",
        "explode": "source.flat_map(function) makes several examples of one",
        "rolling": "source.window(size, stride) gives runs of examples",
        "assign": "source.map(function) adds features",
        "with_columns": "source.map(function) adds features",
        "astype": "source.map(function), or hr.open(path, schema=...), changes types",
        "drop_duplicates": "source[mask] chooses, with a mask of numpy.unique(source['feature'], return_index=True)",
        "drop_nulls": "source.filter(function) leaves examples out",
        "fill_null": "source.map(function) changes values",
        "empty": "len(source) == 0 is true of an empty source",
        "keys": "list(source.schema) has the names",
        "items": "{name: source[name] for name in source.schema} has the columns",
        "limit": "source.take(n) has the first examples",
        "slice": "source[begin:end] has some of the examples",
        "rows": "list(source) has all examples",
        "iter_rows": "'for example in source' gives the examples",
        "to_dicts": "list(source) has all examples",
        "to_records": "source.batch(range(len(source))) has all columns",
        "copy": "a source never changes: use it as it is",
        "reset_index": "the index of an example is its place in the source, always",
        "set_index": "the index of an example is its place in the source; source.sort('feature') sorts",
        "height": "len(source) is the number of examples",
        "write_parquet": "hr.write('x.parquet', source) writes a file",
        "write_csv": "hr.write('x.csv', source) writes a file",
        "write_ndjson": "hr.write('x.jsonl', source) writes a file",
        "info": "print(source.schema) shows the types",
        # PyTorch and Grain
        "to_torch": "hr.Loader(source, batch_size, to='torch') gives tensors",
        "to_map_dataset": "grain.MapDataset.source(source) takes a source",
        "to_iter_dataset": "hr.Loader(source, batch_size) iterates over batches",
        "random_map": "source.map(function, seeded=True) hands random numbers to the function",
        "map_with_index": "source.zip({'index': numpy.arange(len(source))}).map(function) hands the index to the function",
        "pipe": "function(source) does the same",
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
        "skip": _FIRST.format(call="skip(n)") + ". load_state_dict(state) continues where a loop stopped",
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
        "set_epoch": "a loader continues with the next epoch; loader.epoch is its number",
        "schema": "loader.source.schema has the types of examples",
        "as_numpy_iterator": "'for batch in loader' gives NumPy arrays",
        "next": "next(iter(loader)) is a batch",
        "sample": _FIRST.format(call="sample(n)"),
        "drop_last": "hr.Loader(source, batch_size, drop_last=True) leaves out what makes no whole batch",
        "pin_memory": "hr.Loader(source, batch_size, to='torch', device='cuda') copies from pinned memory",
        "prefetch_factor": "hr.Loader(source, batch_size, prefetch=2) reads ahead, and does so by default",
        "persistent_workers": "hr.Loader(source, batch_size, workers=4) starts workers with each loop",
        "worker_init_fn": "source.map(function, seeded=True) needs no seed for each worker",
        "generator": "hr.Loader(source, batch_size, shuffle=True, seed=0) has the seed",
        "with_format": "hr.Loader(source, batch_size, to='torch') converts batches",
    }
)
"""The same for loaders."""


_READ = "numpy.asarray(column) has all values: {call}"

FOR_MIXTURES = MappingProxyType(
    {
        name: f"hr.Source(mixture).{name}(...) works on the examples of its first epoch. To change what is mixed, call it for each source"
        for name in (
            "cache",
            "concat",
            "count",
            "filter",
            "flat_map",
            "head",
            "map",
            "random_split",
            "rename",
            "sample",
            "select",
            "skip",
            "sort",
            "split",
            "take",
            "to_arrow",
            "to_numpy",
            "to_pandas",
            "to_polars",
            "window",
            "zip",
        )
    }
)
"""Operations of sources, and how to call them on a mixture."""
FOR_COLUMNS = MappingProxyType(
    {
        **{
            name: _READ.format(call=f"numpy.asarray(column).{name}()")
            for name in (
                "mean",
                "std",
                "var",
                "min",
                "max",
                "sum",
                "argmax",
                "argmin",
                "argsort",
                "round",
                "all",
                "any",
            )
        },
        "astype": _READ.format(call="numpy.asarray(column).astype(dtype)"),
        "median": _READ.format(call="numpy.median(column)"),
        "quantile": _READ.format(call="numpy.quantile(column, q)"),
        "unique": "numpy.unique(column) finds the values",
        "nunique": "len(numpy.unique(column)) is the number of values",
        "value_counts": "numpy.unique(column, return_counts=True) counts",
        "isna": "numpy.isnan(column) finds missing values",
        "isnull": "numpy.isnan(column) finds missing values",
        "notna": "~numpy.isnan(column) finds values that are not missing",
        "between": "(column >= low) & (column <= high) is a mask",
        "apply": "source.map(function) changes examples when they are read",
        "map": "source.map(function) changes examples when they are read",
        "filter": "source[column == value] chooses examples; source.filter(function) does, too",
        "str": "source.filter(hr.condition(\"name contains 'text'\")) searches text",
        "sort": "source.sort('feature') sorts the examples",
        "sort_values": "source.sort('feature') sorts the examples",
        "values": "numpy.asarray(column) has all values",
        "to_numpy": "numpy.asarray(column) has all values",
        "numpy": "numpy.asarray(column) has all values",
        "tolist": "list(column) has all values",
        "to_list": "list(column) has all values",
        "to_pandas": "column.source.to_pandas() is a frame of this column",
        "to_arrow": "column.source.to_arrow() is a table of this column",
        "head": "column[:5] has the first values",
        "take": "column[:n] has the first values",
        "tail": "column[-5:] has the last values",
        "iloc": "column[3] is a value, column[3:9] a column",
        "size": "len(column) is the number of values",
    }
)
"""The same for columns."""

FOR_PACKAGE = MappingProxyType(
    {
        "load_dataset": "hr.open(path) opens files, hr.data_source(name) datasets prepared by TFDS",
        "load_from_disk": "hr.open(path) opens files",
        "load": "hr.data_source(name) opens datasets prepared by TFDS, hr.open(path) files",
        "read_csv": "hr.open('x.csv') opens a file",
        "read_parquet": "hr.open('x.parquet') opens a file",
        "read_json": "hr.open('x.jsonl') opens a file",
        "TFRecordDataset": "hr.open('x.tfrecord') opens examples, hr.records('x.tfrecord') their bytes",
        "TFRecordWriter": "hr.Writer('x.tfrecord') writes examples, hr.write_records(path, payloads) bytes",
        "Dataset": "hr.open(path) is a source of files, hr.ColumnSource(columns) one of arrays",
        "DataFrame": "hr.ColumnSource(columns) is a source of arrays, and source.to_pandas() a frame",
        "DataLoader": "hr.Loader(source, batch_size) iterates over batches",
        "from_pandas": "hr.open(frame) is a source of a frame",
        "from_dict": "hr.ColumnSource({'name': array}) is a source of arrays",
        "concat": "source.concat(other) appends",
        "concatenate_datasets": "source.concat(other) appends",
        "interleave_datasets": "hr.Mixture({one: 3, other: 1}) mixes sources",
        "save": "hr.write(path, source) writes a file",
        "describe": "hr.stats(source) has the numbers of each feature",
    }
)
"""The same for the package itself."""


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

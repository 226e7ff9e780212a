"""The workloads: their systems, and the targets for Headrace."""

from __future__ import annotations

from benchmarks.compare.file_workloads import FILE_WORKLOADS
from benchmarks.compare.function_workloads import FUNCTION_WORKLOADS
from benchmarks.compare.image_workloads import IMAGE_WORKLOADS
from benchmarks.compare.prepared_workloads import PREPARED_WORKLOADS
from benchmarks.compare.results import Table, Target, faster, fastest_peer
from benchmarks.compare.tasks import System
from benchmarks.compare.workload import Workload
from benchmarks.data import EXAMPLE_BYTES, ROW_BYTES

HEADRACE = "Headrace"
FIRST_EPOCH = "Headrace, first epoch of a process, nothing cached"
OPENED = "Headrace, first epoch of a process, index cached"


def _ours(name: str, function: str, *, fresh: bool = False, empty_cache: bool = False) -> System:
    return System(name=name, role="headrace", start=f"ours:{function}", fresh=fresh, empty_cache=empty_cache)


def _peer(name: str, start: str, *, epochs: int | None = None, note: str = "") -> System:
    return System(name=name, role="peer", start=start, epochs=epochs, note=note)


def _limit(name: str, function: str) -> System:
    return System(name=name, role="limit", start=f"limits:{function}")


_TF, _TF_NUMPY = "tf.data best", "tf.data best, as_numpy_iterator"
_TUTORIAL = "tf.data tutorial: map(parse_single_example).batch"
_COPY_NEW, _COPY_READ = "limit: the same, mapped anew in every epoch", "limit: the same, read in blocks"
_HF, _COPY = "HF datasets with_format(numpy).iter", "limit: strided copy from the mapped file"

W1 = Workload(
    title="W1 one TFRecord file of 60,000 x (784 float32 + int64), batches of 128, in order",
    note="tf.data and Headrace check the checksums; the limit does not, and does not decode labels.",
    row_bytes=EXAMPLE_BYTES,
    systems=(
        _ours(HEADRACE, "in_order"),
        _peer(_TF, "tf_data:best"),
        _peer(_TF_NUMPY, "tf_data:best_numpy"),
        _peer(_TUTORIAL, "tf_data:tutorial", epochs=5),
        _peer(_HF, "hugging_face:in_order", note="Arrow table: no framing, checksums or protobuf"),
        _limit(_COPY, "strided_copy"),
        _limit(_COPY_NEW, "strided_copy_new_map"),
        _limit(_COPY_READ, "strided_copy_read"),
        _ours(FIRST_EPOCH, "opened_in_order", fresh=True, empty_cache=True),
    ),
    targets=(
        Target(text="times tf.data at its best", required=5, measure=faster(HEADRACE, _TF, _TF_NUMPY)),
        Target(text="times the tf.data tutorial form", required=30, measure=faster(HEADRACE, _TUTORIAL)),
        Target(text="times HF datasets numpy iter", required=2, measure=faster(HEADRACE, _HF)),
        Target(
            text="of the plain strided copy, map kept over all epochs", required=0.7, measure=faster(HEADRACE, _COPY)
        ),
        Target(text="of the same, mapped anew in every epoch", required=0.7, measure=faster(HEADRACE, _COPY_NEW)),
        Target(text="of the same, read in blocks", required=0.7, measure=faster(HEADRACE, _COPY_READ)),
    ),
)


def _tf_peak_share(table: Table) -> float:
    return table[HEADRACE].peak_mb / min(table[_TF].peak_mb, table[_TF_NUMPY].peak_mb)


def _first_ms(name: str, table: Table) -> float:
    first = table[name].first_s
    if first is None:
        raise KeyError(name)
    return first * 1e3


W1S = Workload(
    title="W1s the same, globally shuffled",
    row_bytes=EXAMPLE_BYTES,
    systems=(
        _ours(HEADRACE, "shuffled"),
        _peer(_TF, "tf_data:shuffled", note="shuffle(60000): a buffer of the whole file"),
        _peer(_TF_NUMPY, "tf_data:shuffled_numpy", note="shuffle(60000): a buffer of the whole file"),
        _peer(
            "HF datasets shuffle(seed).iter", "hugging_face:shuffled", note="one permutation, made before the timing"
        ),
        _peer("Grain DataLoader, ArrayRecord", "grain_loader:shuffled", epochs=1, note="plain bytes: no protobuf"),
        _ours(OPENED, "opened_shuffled", fresh=True),
    ),
    targets=(
        Target(
            text="times the fastest peer",
            required=5,
            measure=lambda table: table[HEADRACE].rate / fastest_peer(table).rate,
        ),
        Target(
            text="from starting an epoch to the first batch",
            required=20,
            measure=lambda table: _first_ms(HEADRACE, table),
            at_most=True,
            unit="ms",
        ),
        Target(
            text="from `hr.open` in a fresh process, index cached, to the first batch",
            required=20,
            measure=lambda table: _first_ms(OPENED, table),
            at_most=True,
            unit="ms",
        ),
        Target(text="of tf.data's peak memory", required=1 / 3, measure=_tf_peak_share, at_most=True),
    ),
)

_PLAIN = "Headrace, plain file"
_LATER = "Headrace, later epochs"

W1Z = Workload(
    title="W1z the same in order, from a GZIP file",
    row_bytes=EXAMPLE_BYTES,
    systems=(
        _ours(FIRST_EPOCH, "opened_gzip", fresh=True, empty_cache=True),
        _ours(_LATER, "gzip"),
        _ours(_PLAIN, "in_order"),
        _peer(_TF, "tf_data:gzip"),
        _peer(_TF_NUMPY, "tf_data:gzip_numpy"),
    ),
    targets=(
        Target(text="first epoch: times tf.data at its best", required=2, measure=faster(FIRST_EPOCH, _TF, _TF_NUMPY)),
        Target(text="later epochs: of Headrace from the plain file", required=0.9, measure=faster(_LATER, _PLAIN)),
    ),
)

_UNDURABLE = "Headrace, hr.write, without fsync"
_BATCHES = "Headrace, Writer.write_batch of 128"
_WRITER, _TUNED = "tf.train.Example + TFRecordWriter (as tutorials do)", "the same with tolist()"
_BARE, _SYNCED = "limit: bare write of the finished bytes", "limit: bare write and fsync"

W1W = Workload(
    title="W1w writing the 60,000 examples from arrays as one TFRecord file",
    note="Headrace makes the file durable (fsync) and renames it into place; TensorFlow's writer does neither.",
    row_bytes=EXAMPLE_BYTES,
    systems=(
        _ours("Headrace, hr.write", "write"),
        _ours(_UNDURABLE, "write_undurable"),
        _ours(_BATCHES, "write_batches"),
        _peer(_WRITER, "tf_data:write_tutorial", epochs=3),
        _peer(_TUNED, "tf_data:write_tuned", epochs=3),
        _limit(_BARE, "bare_write"),
        _limit(_SYNCED, "bare_write_sync"),
    ),
    targets=(
        Target(
            text="times TFRecordWriter with tf.train.Example",
            required=15,
            measure=faster("Headrace, hr.write", _WRITER),
        ),
        Target(text="of a bare write with fsync", required=0.7, measure=faster("Headrace, hr.write", _SYNCED)),
        Target(text="of a bare write, neither with fsync", required=0.7, measure=faster(_UNDURABLE, _BARE)),
        Target(text="of a bare write without fsync", required=0.7, measure=faster("Headrace, hr.write", _BARE)),
    ),
)

_SLICES, _TAKE = "limit: numpy slice-and-copy of the map", "limit: np.take(out=) of the map"
_FIXED, _FIXED_NUMPY = "tf.data FixedLengthRecordDataset best", "tf.data FixedLengthRecordDataset best, numpy"

W5 = Workload(
    title="W5 one float32 npy of 200,000 x 784, batches of 128, in order",
    row_bytes=ROW_BYTES,
    systems=(
        _ours(HEADRACE, "npy"),
        _limit(_SLICES, "slice_copy"),
        _limit("limit: the same, mapped anew in every epoch", "slice_copy_new_map"),
        _peer(_FIXED, "tf_data:npy"),
        _peer(_FIXED_NUMPY, "tf_data:npy_numpy"),
    ),
    targets=(
        Target(text="of numpy's slice-and-copy", required=0.8, measure=faster(HEADRACE, _SLICES)),
        Target(text="times tf.data at its best", required=5, measure=faster(HEADRACE, _FIXED, _FIXED_NUMPY)),
    ),
)

W5S = Workload(
    title="W5s the same, globally shuffled",
    row_bytes=ROW_BYTES,
    systems=(
        _ours(HEADRACE, "npy_shuffled"),
        _limit(_TAKE, "take"),
        _peer("tf.data FixedLengthRecordDataset + shuffle(200000)", "tf_data:npy_shuffled", epochs=3),
        _peer("torch DataLoader(BatchSampler)", "torch_loader:shuffled", note="the user writes the batched indexing"),
    ),
    targets=(Target(text="of np.take", required=0.9, measure=faster(HEADRACE, _TAKE)),),
)

_SHUFFLED = "Headrace, shuffled"
_TEN, _TEN_SHUFFLED = "Headrace, file 10 x as large", "Headrace, file 10 x as large, shuffled"
_SHARDS, _SHARDS_SHUFFLED = "Headrace, 1,000 shards", "Headrace, 1,000 shards, shuffled"


def _memory_ratio(large: str, small: str, table: Table) -> float:
    return table[large].peak_mb / table[small].peak_mb


def _anonymous_ratio(large: str, small: str, table: Table) -> float:
    return table[large].anonymous_mb / table[small].anonymous_mb


GROWTH = Workload(
    title="growth: a file ten times as large, and a thousand shards of the same size",
    note="Costs are per example. Shuffled reading touches every page of the mapped file, which the system may drop.",
    row_bytes=EXAMPLE_BYTES,
    systems=(
        _ours(HEADRACE, "in_order"),
        _ours(_TEN, "tenfold"),
        _ours(_SHARDS, "shards"),
        _ours(_SHUFFLED, "shuffled"),
        _ours(_TEN_SHUFFLED, "tenfold_shuffled"),
        _ours(_SHARDS_SHUFFLED, "shards_shuffled"),
    ),
    targets=(
        Target(text="10 x file: speed per example", required=0.9, measure=faster(_TEN, HEADRACE)),
        Target(text="10 x file, shuffled: speed per example", required=0.9, measure=faster(_TEN_SHUFFLED, _SHUFFLED)),
        Target(
            text="10 x file: peak memory",
            required=1.1,
            measure=lambda table: _memory_ratio(_TEN, HEADRACE, table),
            at_most=True,
        ),
        Target(
            text="10 x file, shuffled: memory that is not file pages",
            required=1.1,
            measure=lambda table: _anonymous_ratio(_TEN_SHUFFLED, _SHUFFLED, table),
            at_most=True,
        ),
        Target(text="1,000 shards: speed", required=0.9, measure=faster(_SHARDS, HEADRACE)),
        Target(text="1,000 shards, shuffled: speed", required=0.9, measure=faster(_SHARDS_SHUFFLED, _SHUFFLED)),
    ),
)


_GRAIN = "Grain DataLoader, no reader threads, protobuf"

W3E = Workload(
    title="W3e ArrayRecord of the 60,000 examples (one in each chunk, Zstandard), globally shuffled, batches of 128",
    row_bytes=EXAMPLE_BYTES,
    systems=(
        _ours(HEADRACE, "array_record_shuffled"),
        _peer(_GRAIN, "grain_loader:examples_shuffled", epochs=1),
    ),
    targets=(Target(text="times Grain's DataLoader", required=50, measure=faster(HEADRACE, _GRAIN)),),
)

_MANY, _GETITEMS = "Headrace, records.spans(128).to_bytes()", "ArrayRecordDataSource.__getitems__(128)"
_ONE, _GETITEM = "Headrace, bytes(records[i])", "ArrayRecordDataSource[i]"

W3 = Workload(
    title="W3 random records of that file, 128 in each call",
    note="Nothing is decoded. Most of Headrace's time is unpacking Zstandard, on both cores where both are free.",
    row_bytes=EXAMPLE_BYTES,
    systems=(_ours(_MANY, "array_record_many"), _peer(_GETITEMS, "grain_loader:many")),
    targets=(Target(text="times ArrayRecordDataSource", required=8, measure=faster(_MANY, _GETITEMS)),),
)

W3O = Workload(
    title="W3o the same, one at a time",
    row_bytes=EXAMPLE_BYTES,
    systems=(_ours(_ONE, "array_record_one"), _peer(_GETITEM, "grain_loader:one", epochs=5)),
    targets=(Target(text="times ArrayRecordDataSource", required=10, measure=faster(_ONE, _GETITEM)),),
)


def _records(name: str, function: str) -> System:
    return System(name=name, role="headrace", start=f"recordio:{function}")


def _sdk(name: str, function: str, *, epochs: int) -> System:
    return System(name=name, role="peer", start=f"sagemaker_sdk:{function}", epochs=epochs, environment="sagemaker")


def _floor(name: str, function: str) -> System:
    return System(name=name, role="limit", start=f"recordio:{function}")


_TO_NUMPY, _PARSE = "Headrace, open(path).to_numpy()", "read_recordio + ParseFromString + np.array into the matrix"
_TO_CSR, _PARSE_SPARSE = "Headrace, open(path).to_csr()", "read_recordio + ParseFromString into CSR parts"
_DENSE, _SDK_DENSE = "Headrace, write_numpy_to_dense_tensor", "SageMaker SDK, write_numpy_to_dense_tensor"
_SPARSE, _SDK_SPARSE = "Headrace, write_spmatrix_to_sparse_tensor", "SageMaker SDK, write_spmatrix_to_sparse_tensor"

W4 = Workload(
    title="W4 RecordIO-protobuf of 60,000 x 784 float32 with labels, into one matrix",
    row_bytes=ROW_BYTES + 4,
    systems=(
        _records(_TO_NUMPY, "dense_read"),
        System(name=FIRST_EPOCH, role="headrace", start="recordio:dense_read", fresh=True, empty_cache=True),
        _sdk(_PARSE, "dense_read", epochs=3),
        _floor("limit: strided copy from blocks of the file into one reused matrix", "strided_copy"),
    ),
    targets=(Target(text="times the SDK", required=20, measure=faster(_TO_NUMPY, _PARSE)),),
)

W4W = Workload(
    title="W4w writing that file from the two arrays",
    row_bytes=ROW_BYTES + 4,
    systems=(
        _records(_DENSE, "dense_write"),
        _records("Headrace, hr.write", "dense_write_columns"),
        _sdk(_SDK_DENSE, "dense_write", epochs=2),
        _floor(_BARE, "bare_write"),
    ),
    targets=(Target(text="times the SDK", required=20, measure=faster(_DENSE, _SDK_DENSE)),),
)

W4S = Workload(
    title="W4s RecordIO-protobuf of a 20,000 x 100,000 CSR matrix, 50 float32 in each row, with labels",
    row_bytes=50 * 8 + 4,
    systems=(
        _records(_TO_CSR, "sparse_read"),
        System(name=FIRST_EPOCH, role="headrace", start="recordio:sparse_read", fresh=True, empty_cache=True),
        _sdk(_PARSE_SPARSE, "sparse_read", epochs=10),
    ),
    targets=(Target(text="times the SDK", required=30, measure=faster(_TO_CSR, _PARSE_SPARSE)),),
)

W4SW = Workload(
    title="W4sw writing that file from the CSR matrix",
    row_bytes=50 * 8 + 4,
    systems=(
        _records(_SPARSE, "sparse_write"),
        _sdk(_SDK_SPARSE, "sparse_write", epochs=5),
        _floor(_BARE, "bare_write_sparse"),
    ),
    targets=(Target(text="times the SDK", required=20, measure=faster(_SPARSE, _SDK_SPARSE)),),
)


def _import(name: str, *, role: str = "peer", epochs: int | None = None) -> System:
    kind = {"headrace": "headrace", "limit": "limit"}.get(role, "peer")
    return System(name=f"import {name}", role=kind, start=f"imports:{name}", epochs=epochs)  # type: ignore[arg-type]


IMPORT = Workload(
    title="import: a whole interpreter, start to end",
    note="The check of the Headrace row also fails when anything optional gets loaded.",
    systems=(
        _import("headrace", role="headrace"),
        System(name="import headrace with records, open and Loader", role="headrace", start="imports:entry_points"),
        _import("numpy", role="limit"),
        System(name="bare interpreter", role="limit", start="imports:bare"),
        _import("datasets", epochs=3),
        _import("torch", epochs=3),
        _import("tensorflow", epochs=3),
    ),
    targets=(
        Target(
            text="more than `import numpy`",
            required=100,
            measure=lambda table: (table["import headrace"].epoch_s - table["import numpy"].epoch_s) * 1e3,
            at_most=True,
            unit="ms",
        ),
    ),
)

WORKLOADS = {
    "W1": W1,
    "W1s": W1S,
    "W1z": W1Z,
    "W1w": W1W,
    "W5": W5,
    "W5s": W5S,
    **FILE_WORKLOADS,
    "W3e": W3E,
    "W3": W3,
    "W3o": W3O,
    "W4": W4,
    "W4w": W4W,
    "W4s": W4S,
    "W4sw": W4SW,
    **IMAGE_WORKLOADS,
    **PREPARED_WORKLOADS,
    **FUNCTION_WORKLOADS,
    "growth": GROWTH,
    "import": IMPORT,
}
"""In the order in which they are run and shown."""

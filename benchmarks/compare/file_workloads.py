"""The workloads with one file per example, and their targets."""

from __future__ import annotations

from benchmarks.compare.results import Target, faster
from benchmarks.compare.tasks import System
from benchmarks.compare.workload import Workload
from benchmarks.data import ROW_BYTES

_HEADRACE = "Headrace"
_NP_LOAD, _TF_FILES = "np.load in a loop, np.stack", "tf.data numpy_function(np.load), as tutorials do"
_BARE_READS = "limit: bare open, read and close into one reused batch"
_TF_FILES_TUNED = "tf.data numpy_function(np.load), AUTOTUNE"

W5F = Workload(
    title="W5f 5,000 npy files of 784 float32, one for each example, batches of 128, in order",
    note="Headrace checks the header and the size of every file; the limit and read_file + decode_raw do not.",
    row_bytes=ROW_BYTES,
    systems=(
        System(name=_HEADRACE, role="headrace", start="array_files:headrace"),
        System(name="Headrace, the folder opened anew", role="headrace", start="array_files:headrace_opened"),
        System(name="Headrace, globally shuffled", role="headrace", start="array_files:headrace_shuffled"),
        System(name=_NP_LOAD, role="peer", start="array_files:np_load"),
        System(name=_TF_FILES, role="peer", start="tf_data:npy_files", epochs=3),
        System(name=_TF_FILES_TUNED, role="peer", start="tf_data:npy_files_tuned", epochs=3),
        System(name="tf.data read_file + decode_raw, AUTOTUNE", role="peer", start="tf_data:npy_files_raw"),
        System(name=_BARE_READS, role="limit", start="array_files:open_and_read"),
    ),
    targets=(
        Target(
            text="times tf.data with numpy_function",
            required=40,
            measure=faster(_HEADRACE, _TF_FILES, _TF_FILES_TUNED),
        ),
        Target(text="times a loop of np.load", required=4, measure=faster(_HEADRACE, _NP_LOAD)),
    ),
)

FILE_WORKLOADS = {"W5f": W5F}

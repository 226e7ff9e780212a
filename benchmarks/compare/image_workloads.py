"""The workloads with images, and their targets."""

from __future__ import annotations

from typing import Any

from benchmarks.compare.results import Target, faster
from benchmarks.compare.tasks import System
from benchmarks.compare.workload import Workload
from benchmarks.image_data import IMAGE_BYTES

TFRECORD, ARRAY_RECORD, FOLDER = "Headrace, TFRecord", "Headrace, ArrayRecord", "Headrace, folder of files"
TABLE = "Headrace, CSV and one file each"
SHUFFLED = ", shuffled"
BARE = "limit: simplejpeg of bytes in memory, two threads"
FFCV = "FFCV Loader, its own JPEG file, 2 workers"
TF_RECORDS, TF_FILES, TORCH = (
    "tf.data best, TFRecord",
    "tf.data best, one file each",
    "torch DataLoader, Pillow, 2 workers",
)


def _ours(name: str, function: str) -> System:
    return System(name=name, role="headrace", start=f"images:{function}")


def _peer(name: str, function: str, **more: Any) -> System:
    return System(name=name, role="peer", start=f"image_peers:{function}", **more)


I1 = Workload(
    title="I1 8,000 JPEGs of 256 x 256 (quality 90) to uint8 batches of 64",
    row_bytes=IMAGE_BYTES,
    needs_images=True,
    systems=(
        _ours(TFRECORD, "tfrecord"),
        System(name=BARE, role="limit", start="images:bare"),
        _ours(ARRAY_RECORD, "array_record"),
        _peer(TF_RECORDS, "tf_records", epochs=4),
        _peer(TF_FILES, "tf_files", epochs=4),
        _peer(TORCH, "torch_pillow", epochs=3),
        System(name=FFCV, role="peer", start="ffcv_loader:sequential", environment="ffcv", epochs=4),
    ),
    targets=(
        Target(text="of bare decoding on both cores, from TFRecord", required=0.9, measure=faster(TFRECORD, BARE)),
        Target(text="of bare decoding, from ArrayRecord", required=0.9, measure=faster(ARRAY_RECORD, BARE)),
        Target(text="times tf.data at its best", required=1.8, measure=faster(TFRECORD, TF_RECORDS, TF_FILES)),
        Target(text="times torch DataLoader with Pillow", required=3.5, measure=faster(TFRECORD, TORCH)),
        Target(text="of FFCV over its own format", required=1.0, measure=faster(TFRECORD, FFCV)),
    ),
)

I2 = Workload(
    title="I2 the same pictures as records and as one file each",
    row_bytes=IMAGE_BYTES,
    needs_images=True,
    systems=(
        _ours(TFRECORD, "tfrecord"),
        _ours(TFRECORD + SHUFFLED, "tfrecord_shuffled"),
        _ours(ARRAY_RECORD, "array_record"),
        _ours(ARRAY_RECORD + SHUFFLED, "array_record_shuffled"),
        _ours(TABLE, "table"),
        _ours(TABLE + SHUFFLED, "table_shuffled"),
        _ours(FOLDER, "folder"),
        _ours(FOLDER + SHUFFLED, "folder_shuffled"),
    ),
)

IMAGE_WORKLOADS = {"I1": I1, "I2": I2}

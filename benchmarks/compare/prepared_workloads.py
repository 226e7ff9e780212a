"""The workloads with datasets prepared by TFDS, and their targets."""

from __future__ import annotations

from benchmarks.compare.results import Target, faster
from benchmarks.compare.tasks import System
from benchmarks.compare.workload import Workload
from benchmarks.image_data import IMAGE_BYTES

OURS, OURS_BATCH = "Headrace, data_source[i]", "Headrace, data_source.batch(indices)"
TFDS, TFDS_BATCH = "tfds.data_source[i]", "tfds.data_source.__getitems__(indices), np.stack"
CLOTHES_BYTES = 28 * 28 + 8


def _workload(title: str, kind: str, row_bytes: int, required: float, *, one: bool) -> Workload:
    ours, theirs = (OURS, TFDS) if one else (OURS_BATCH, TFDS_BATCH)
    function = f"{kind}_{'one' if one else 'batch'}"
    return Workload(
        title=title,
        note="ArrayRecord files that the builder of TFDS prepared, in a random order.",
        row_bytes=row_bytes,
        needs_images=True,
        systems=(
            System(name=ours, role="headrace", start=f"prepared:{function}"),
            System(name=theirs, role="peer", start=f"tfds_data_source:{function}"),
        ),
        targets=(Target(text="times tfds.data_source", required=required, measure=faster(ours, theirs)),),
    )


OURS_TORCH, TFDS_TORCH = "DataLoader over Headrace's data_source", "DataLoader over tfds.data_source"
OURS_LOADER = 'Headrace, Loader(to="torch")'
TORCH = Workload(
    title="D5 the PNGs as tensors of PyTorch, in shuffled batches of 128",
    note="`DataLoader(source, batch_size=128, shuffle=True)`, without workers; an epoch over all examples.",
    row_bytes=CLOTHES_BYTES,
    needs_images=True,
    systems=(
        System(name=OURS_LOADER, role="headrace", start="prepared_torch:loader"),
        System(name=OURS_TORCH, role="headrace", start="prepared_torch:data_loader"),
        System(name=TFDS_TORCH, role="peer", start="prepared_torch:data_loader_over_tfds"),
    ),
    targets=(
        Target(
            text="DataLoader, times the same over tfds.data_source", required=2, measure=faster(OURS_TORCH, TFDS_TORCH)
        ),
        Target(
            text="Loader, times DataLoader over tfds.data_source", required=6, measure=faster(OURS_LOADER, TFDS_TORCH)
        ),
    ),
)

PREPARED_WORKLOADS = {
    "D1": _workload("D1 PNG of 28 x 28, one example at a time", "clothes", CLOTHES_BYTES, 2, one=True),
    "D2": _workload("D2 the same in batches of 128", "clothes", CLOTHES_BYTES, 5, one=False),
    "D3": _workload("D3 JPEG of 256 x 256, one example at a time", "photos", IMAGE_BYTES, 1.4, one=True),
    "D4": _workload("D4 the same in batches of 64", "photos", IMAGE_BYTES, 2.5, one=False),
    "D5": TORCH,
}

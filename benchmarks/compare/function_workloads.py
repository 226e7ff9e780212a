"""The workloads in which a function of the user makes every example, and their targets."""

from __future__ import annotations

from benchmarks.compare.results import Target, faster
from benchmarks.compare.tasks import System
from benchmarks.compare.workload import Workload
from benchmarks.data import ROW_BYTES

_HEADRACE, _TORCH = "Headrace", "torch DataLoader over a map-style dataset"
_GRAIN = "Grain MapDataset.map.batch"


def _system(name: str, function: str, *, role: str = "peer", epochs: int | None = None) -> System:
    kind = "headrace" if role == "headrace" else "peer"
    return System(name=name, role=kind, start=f"python_functions:{function}", epochs=epochs)  # type: ignore[arg-type]


P1 = Workload(
    title="P1 a Python function on each row of a npy file, batches of 128, in order",
    note="The function multiplies 784 float32 by 1.",
    row_bytes=ROW_BYTES,
    systems=(
        _system(_HEADRACE, "headrace", role="headrace"),
        _system(_TORCH, "torch_loader"),
        _system(_GRAIN, "grain", epochs=1),
    ),
    targets=(Target(text="times torch's DataLoader", required=1.5, measure=faster(_HEADRACE, _TORCH)),),
)

P2 = Workload(
    title="P2 the same in two worker processes",
    note=P1.note,
    row_bytes=ROW_BYTES,
    systems=(
        _system(_HEADRACE, "headrace_workers", role="headrace"),
        _system(_TORCH, "torch_workers", epochs=3),
    ),
    targets=(Target(text="times torch's DataLoader", required=2, measure=faster(_HEADRACE, _TORCH)),),
)

FUNCTION_WORKLOADS = {"P1": P1, "P2": P2}

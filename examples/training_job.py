"""Train with an unmodified SageMaker script, inspect the job, and serve the model.

The script is examples/scripts/sklearn_abalone_featurizer.py. Run: python examples/training_job.py [abalone.csv]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from headrace.containers.script import ScriptContainer
from headrace.contracts.job import Channel
from headrace.contracts.serving import Request
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.store import PathStore
from headrace.jobs.training import train
from headrace.jobs.tree import unpack

SCRIPT = Path(__file__).parent / "scripts" / "sklearn_abalone_featurizer.py"


def write_table(path):
    """A table like Abalone's: sex, seven measurements, rings."""
    rng = np.random.default_rng(0)
    measures, rings = rng.random((200, 7)), rng.integers(1, 20, 200)
    rows = (
        f"{'MFI'[i % 3]},{','.join(f'{value:.3f}' for value in row)},{ring}"
        for i, (row, ring) in enumerate(zip(measures, rings, strict=True))
    )
    path.write_text("\n".join(rows) + "\n")


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        table = Path(sys.argv[1]) if len(sys.argv) > 1 else folder / "table.csv"
        if len(sys.argv) == 1:
            write_table(table)
        container = ScriptContainer(entry_point=SCRIPT)
        spec = TrainingSpec(
            name="featurizer", channels={"train": Channel(uri=str(table))}, output_path=str(folder / "out")
        )
        job = train(spec, container, PathStore(), work_dir=folder / "jobs")
        print(job.status, "->", Path(job.model_uri).relative_to(folder))

        unpack(Path(job.model_uri), folder / "model")
        handler = container.handler(folder / "model")
        row = b"M, 0.44, 0.365, 0.125, 0.516, 0.2155, 0.114, 0.155"
        for accept in ("application/json", "text/csv"):
            answer = handler(Request(body=row, content_type="text/csv", accept=accept))
            print(answer.content_type, answer.body.decode())


if __name__ == "__main__":
    main()

"""Small jobs for the tests: a tree of channels, trained in this process."""

import os
import threading

import numpy as np

from headrace.containers.linear_learner.container import LinearLearnerContainer
from headrace.contracts.job import Channel, TrainingJob

CSV = "text/csv"
RECORDIO = "application/x-recordio-protobuf"


def write_csv(path, features, labels):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, np.column_stack([labels, features]), delimiter=",", fmt="%.9g")


def job(base, *, channels=None, modes=None, **hyperparameters):
    """A job over existing files in ``base``; ``channels`` maps names to content types."""
    channels = {"train": CSV} if channels is None else channels
    (base / "model").mkdir(parents=True, exist_ok=True)
    lines = []
    made = TrainingJob(
        name="job",
        base_dir=base,
        hyperparameters={name: str(value) for name, value in hyperparameters.items()},
        channels={
            name: Channel(uri=name, content_type=kind, input_mode=(modes or {}).get(name, "File"))
            for name, kind in channels.items()
        },
        log=lines.append,
    )
    return made, lines


def train(base, **options):
    made, lines = job(base, **options)
    container = LinearLearnerContainer()
    container.train(made)
    return container.handler(made.model_dir), lines


def train_csv(base, features, labels, validation=None, **hyperparameters):
    write_csv(base / "input/data/train/train.csv", features, labels)
    channels = {"train": CSV}
    if validation is not None:
        write_csv(base / "input/data/validation/validation.csv", *validation)
        channels["validation"] = CSV
    return train(base, channels=channels, **hyperparameters)


def feed(path, *contents):
    """A FIFO per epoch, each filled by a thread once it is read."""

    def fill(fifo, content):
        with open(fifo, "wb") as file:
            file.write(content)

    path.parent.mkdir(parents=True, exist_ok=True)
    for epoch, content in enumerate(contents):
        fifo = path.with_name(f"{path.name}_{epoch}")
        os.mkfifo(fifo)
        threading.Thread(target=fill, args=(fifo, content), daemon=True).start()

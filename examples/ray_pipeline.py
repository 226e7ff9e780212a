"""From images in a bucket to an endpoint, on Ray: convert, look at the data, train on two workers, serve with two replicas.

python examples/ray_pipeline.py s3://BUCKET/FOLDER

Starts a local Ray if RAY_ADDRESS names no cluster. The workers need the credentials of the bucket, too.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import tempfile
from pathlib import Path

import numpy as np
import ray
import ray.train
import torch
from ray.train.torch import TorchTrainer

import headrace as hr
from headrace.hosting import create_endpoint, recognise

PICTURES, SIDE, CLASSES = 512, 12, 4
SCRIPT = """
import json, os
import numpy as np

def model_fn(model_dir):
    with open(os.path.join(model_dir, "weights.json")) as file:
        return [np.array(each) for each in json.load(file)]

def predict_fn(pixels, model):
    weights, bias = model
    return (pixels.reshape(len(pixels), -1) / 255 @ weights.T + bias).argmax(axis=1)
"""


def make_pictures(url: str) -> None:
    """Pictures in which the brightest column is the class, as PNG files, and a CSV with their names."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, CLASSES, PICTURES)
    pixels = rng.integers(0, 120, (PICTURES, SIDE, SIDE, 3), np.uint8)
    for number, column in enumerate(label * 3):
        pixels[number, :, column] = 255
    kinds = [f"kind{each}" for each in label]
    schema = {
        "image": hr.Feature("uint8", (SIDE, SIDE, 3), encoding="png"),
        "label": hr.Feature("int64", (), names=sorted(set(kinds))),
    }
    hr.write(f"{url}/pictures", {"image": pixels, "label": label}, format="image_folder", schema=schema)
    stored = hr.open(f"{url}/pictures", format="image_folder")
    names = [str(stored.where(index).path).removeprefix(f"{url}/") for index in range(PICTURES)]
    hr.write(f"{url}/pictures.csv", {"image": names, "label": stored.batch(range(PICTURES))["label"]})


def train_loop(config: dict) -> None:
    """One worker: reads its part of every epoch; DistributedDataParallel joins the gradients."""
    loader = hr.Loader(hr.open(config["data"]), 32, shuffle=True, seed=1, epochs=20, to="torch")
    model = ray.train.torch.prepare_model(torch.nn.Linear(SIDE * SIDE * 3, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    examples = 0
    for batch in loader:
        pixels = batch["image"].reshape(len(batch["label"]), -1).float() / 255
        loss = torch.nn.functional.cross_entropy(model(pixels), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        examples += len(pixels)
    metrics = {"examples": examples, "loss": float(loss)}
    if ray.train.get_context().get_world_rank() > 0:
        ray.train.report(metrics)
        return
    with tempfile.TemporaryDirectory() as folder:
        weights = [parameter.tolist() for parameter in model.parameters()]
        Path(folder, "weights.json").write_text(json.dumps(weights))
        Path(folder, "loader.json").write_text(json.dumps(loader.state_dict()))
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


def main(url: str, folder: Path) -> None:
    make_pictures(url)

    shards = f"{url}/pictures.tfrecord@64"
    done = hr.convert(f"{url}/pictures.csv", shards, on="ray")
    print(f"converted {done.examples} pictures to {len(done.paths)} shards")

    print(hr.stats(hr.open(shards).select("label"), on="ray"))

    result = TorchTrainer(
        train_loop,
        train_loop_config={"data": shards},
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(storage_path=str(folder / "runs")),
    ).fit()
    print(f"each of two workers read {result.metrics['examples']} pictures")

    model = folder / "model"
    (model / "code").mkdir(parents=True)
    (model / "code" / "inference.py").write_text(SCRIPT)
    with result.checkpoint.as_directory() as checkpoint:
        (model / "weights.json").write_text(Path(checkpoint, "weights.json").read_text())

    endpoint = create_endpoint("pictures", [recognise(str(model))], on="ray", replicas=2)
    try:
        asked = hr.open(shards).batch(range(100))
        body = io.BytesIO()
        np.save(body, asked["image"])
        answer = endpoint.invoke(body.getvalue(), content_type="application/x-npy", accept="application/json")
        right = int(np.sum(np.array(json.loads(answer.body)) == asked["label"]))
        print(f"two replicas: {right} of 100 pictures recognised")
    finally:
        endpoint.delete()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    logging.getLogger("ray").setLevel(logging.ERROR)
    if not ray.is_initialized():
        ray.init(num_cpus=6, include_dashboard=False, logging_level="error", log_to_driver=False)
    with tempfile.TemporaryDirectory() as work:
        main(sys.argv[1].rstrip("/"), Path(work))
    ray.shutdown()

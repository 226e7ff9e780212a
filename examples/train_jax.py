"""Train and test a linear classifier with JAX, on handwritten digits in a TFRecord file.

python examples/train_jax.py

With several processes, call ``jax.distributed.initialize()`` first, and make ``device`` a ``NamedSharding`` over ``jax.devices()``. Each
process then reads its own part, and its batches are parts of global arrays. Nothing else changes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import headrace as hr

PIXELS, CLASSES, BATCH, EPOCHS, RATE = 64, 10, 64, 20, 0.5


def make_data(path: Path) -> None:
    """1,797 digits of 8 x 8 pixels, in an order unrelated to their labels."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images.reshape(-1, PIXELS) / 16).astype(np.float32)
    hr.write(path, {"image": images[order], "label": digits.target[order]})


def loss(weights, batch):
    scores = batch["image"] @ weights["w"] + weights["b"]
    chances = jax.nn.log_softmax(scores)
    return -jnp.take_along_axis(chances, batch["label"][:, None], axis=1).mean()


@jax.jit
def step(weights, batch):
    return jax.tree.map(lambda value, slope: value - RATE * slope, weights, jax.grad(loss)(weights, batch))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.tfrecord"
        make_data(path)
        train, test = (hr.open(path, split=split) for split in ("train[:80%]", "train[80%:]"))
        weights = {"w": jnp.zeros((PIXELS, CLASSES)), "b": jnp.zeros(CLASSES)}
        # Batches of equal size, so that the step compiles once; each is copied to the device ahead of time.
        device = jax.devices()[0]
        for batch in hr.Loader(
            train, BATCH, shuffle=True, seed=1, epochs=EPOCHS, drop_last=True, to="jax", device=device
        ):
            weights = step(weights, batch)
        whole = test.batch(np.arange(len(test)))
        found = (whole["image"] @ np.asarray(weights["w"]) + np.asarray(weights["b"])).argmax(1)
        share = (found == whole["label"]).mean()
        print(f"{share:.1%} of {len(test)} test examples are recognised")
        assert share > 0.9


if __name__ == "__main__":
    main()

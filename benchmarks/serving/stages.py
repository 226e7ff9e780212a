"""The two stages without a server, as the peers call them: CSV text to JSON instances to JSON predictions."""

from __future__ import annotations

import functools
import io
import json
import os
from pathlib import Path

import joblib
import numpy as np
import pandas as pd

FEATURES = ["sex", "length", "diameter", "height", "whole_weight", "shucked_weight", "viscera_weight", "shell_weight"]
MODELS = Path(os.environ.get("SERVING_MODELS", "."))


@functools.cache
def featurizer():
    """The fitted ColumnTransformer."""
    return joblib.load(MODELS / "featurizer" / "model" / "model.joblib")


@functools.cache
def weights():
    """Coefficients and intercept of the linear model."""
    found = json.loads((MODELS / "linear" / "weights.json").read_text())
    return np.array(found["coefficients"]), found["intercept"]


def load():
    """Load both, as a worker does before its first request."""
    featurizer()
    weights()


def first(text):
    frame = pd.read_csv(io.StringIO(text), header=None)
    frame.columns = FEATURES
    features = featurizer().transform(frame)
    features = features.toarray() if hasattr(features, "toarray") else features
    return json.dumps({"instances": [{"features": row} for row in features.tolist()]})


def second(text):
    rows = np.array([instance["features"] for instance in json.loads(text)["instances"]])
    coefficients, intercept = weights()
    return json.dumps({"predictions": [{"score": score} for score in (rows @ coefficients + intercept).tolist()]})


def chain(text):
    return second(first(text))


def chain_many(texts):
    """Bodies of one row each, answered by one pass."""
    return [json.dumps({"predictions": [one]}) for one in json.loads(chain("\n".join(texts)))["predictions"]]

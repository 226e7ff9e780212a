"""The well-known featurizer script of SageMaker's serial-inference notebook, for the scikit-learn container."""

from __future__ import annotations

import io
import json
import os

import joblib
import pandas as pd
from sagemaker_containers.beta.framework import encoders, worker

FEATURES = ["sex", "length", "diameter", "height", "whole_weight", "shucked_weight", "viscera_weight", "shell_weight"]
LABEL = "rings"


def input_fn(input_data, content_type):
    if content_type != "text/csv":
        raise ValueError(f"{content_type} not supported by script!")
    frame = pd.read_csv(io.StringIO(input_data), header=None)
    frame.columns = FEATURES + [LABEL] * (len(frame.columns) == len(FEATURES) + 1)
    return frame


def predict_fn(input_data, model):
    features = model.transform(input_data)
    return features.toarray() if hasattr(features, "toarray") else features


def output_fn(prediction, accept):
    if accept == "application/json":
        instances = [{"features": row} for row in prediction.tolist()]
        return worker.Response(json.dumps({"instances": instances}), mimetype=accept)
    if accept == "text/csv":
        return worker.Response(encoders.encode(prediction, accept), mimetype=accept)
    raise ValueError(f"{accept} accept type is not supported by this script.")


def model_fn(model_dir):
    return joblib.load(os.path.join(model_dir, "model.joblib"))

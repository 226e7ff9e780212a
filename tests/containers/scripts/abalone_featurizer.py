"""Featurizes the abalone table: scaled numbers, one column per sex. Runs unchanged on SageMaker and Headrace."""

from __future__ import print_function

import argparse
import json
import os
from io import StringIO

import numpy as np
import pandas as pd
from sagemaker_containers.beta.framework import encoders, worker
from sklearn.compose import ColumnTransformer
from sklearn.externals import joblib
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

FEATURES = [
    "sex",
    "length",
    "diameter",
    "height",
    "whole_weight",
    "shucked_weight",
    "viscera_weight",
    "shell_weight",
]
LABEL = "rings"
KINDS = {name: np.float64 for name in FEATURES}
KINDS["sex"] = str


def read_folder(folder):
    """All files of a channel as one table."""
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    if not paths:
        raise ValueError("There are no files in {}: check the channel's path and its role's rights.".format(folder))
    kinds = dict(KINDS, **{LABEL: np.float64})
    return pd.concat([pd.read_csv(path, header=None, names=FEATURES + [LABEL], dtype=kinds) for path in paths])


def make_preprocessor():
    """Numbers: fill and scale. Sex: one column each."""
    numbers = Pipeline([("impute", SimpleImputer(strategy="median")), ("scale", StandardScaler())])
    texts = Pipeline(
        [
            ("impute", SimpleImputer(strategy="constant", fill_value="missing")),
            ("onehot", OneHotEncoder(handle_unknown="ignore")),
        ]
    )
    numeric = [name for name in FEATURES if name != "sex"]
    return ColumnTransformer([("numbers", numbers, numeric), ("texts", texts, ["sex"])])


def input_fn(input_data, content_type):
    """A table with named columns, with or without labels."""
    if content_type == "text/csv":
        table = pd.read_csv(StringIO(input_data), header=None)
        if len(table.columns) == len(FEATURES) + 1:
            table.columns = FEATURES + [LABEL]
        elif len(table.columns) == len(FEATURES):
            table.columns = FEATURES
        return table
    raise ValueError("{} not supported by script!".format(content_type))


def predict_fn(input_data, model):
    """Features, after the label if there is one."""
    features = model.transform(input_data)
    if LABEL in input_data:
        return np.insert(features, 0, input_data[LABEL], axis=1)
    return features


def output_fn(prediction, accept):
    """The next algorithm's input: JSON by default, CSV on request."""
    if accept == "application/json":
        instances = [{"features": row} for row in prediction.tolist()]
        return worker.Response(json.dumps({"instances": instances}), accept, mimetype=accept)
    if accept == "text/csv":
        return worker.Response(encoders.encode(prediction, accept), accept, mimetype=accept)
    raise RuntimeError("{} accept type is not supported by this script.".format(accept))


def model_fn(model_dir):
    """The fitted preprocessor."""
    return joblib.load(os.path.join(model_dir, "model.joblib"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output-data-dir", type=str, default=os.environ["SM_OUTPUT_DATA_DIR"])
    parser.add_argument("--model-dir", type=str, default=os.environ["SM_MODEL_DIR"])
    parser.add_argument("--train", type=str, default=os.environ["SM_CHANNEL_TRAIN"])
    args = parser.parse_args()

    preprocessor = make_preprocessor()
    preprocessor.fit(read_folder(args.train))
    joblib.dump(preprocessor, os.path.join(args.model_dir, "model.joblib"))
    print("saved model!")

"""A script in the style of 2021: it creates responses with the classes of the server in SageMaker's images."""

import argparse
import json
import os

import flask
import joblib
import pandas as pd
from sagemaker_inference.encoder import encode
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from werkzeug.wrappers import Response

NAMES = ["kind", "size"]

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-dir", type=str, default=os.environ["SM_MODEL_DIR"])
    parser.add_argument("--train", type=str, default=os.environ["SM_CHANNEL_TRAIN"])
    args = parser.parse_args()
    files = [os.path.join(args.train, name) for name in os.listdir(args.train)]
    kinds = {"kind": "category", "size": "float64"}
    table = pd.concat([pd.read_csv(file, header=None, names=NAMES, dtype=kinds) for file in files])
    preprocessor = ColumnTransformer(
        [
            ("numbers", StandardScaler(), make_column_selector(dtype_exclude="category")),
            ("kinds", OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
        ],
        sparse_threshold=0,
    )
    preprocessor.fit(table)
    joblib.dump(preprocessor, os.path.join(args.model_dir, "model.joblib"))


def model_fn(model_dir):
    return joblib.load(os.path.join(model_dir, "model.joblib"))


def input_fn(input_data, content_type):
    rows = [line.split(",") for line in input_data.splitlines()]
    return pd.DataFrame([[kind, float(size)] for kind, size in rows], columns=NAMES)


def predict_fn(input_data, model):
    return model.transform(input_data)


def output_fn(prediction, accept):
    if accept == "application/json":
        instances = [{"features": row} for row in prediction.tolist()]
        return Response(response=json.dumps({"instances": instances}), mimetype=accept)
    return flask.Response(response=encode(prediction, accept), mimetype=accept)

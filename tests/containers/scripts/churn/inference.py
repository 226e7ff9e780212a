"""Serves the model of train.py: tables with column names in, typed bodies out."""

import json
import logging
import os
from io import StringIO

import joblib
import pandas as pd
from preparation import COLUMNS

logging.basicConfig(level=logging.INFO)
logger = logging.getLogger("churn")


def model_fn(model_dir):
    logger.info("loading from %s", os.path.basename(model_dir))
    return joblib.load(os.path.join(model_dir, "model.joblib"))


def input_fn(request_body, request_content_type):
    if isinstance(request_body, (bytes, bytearray)):
        request_body = request_body.decode("utf-8")
    if request_content_type == "text/csv":
        return pd.read_csv(StringIO(request_body), header=None, names=COLUMNS)
    if request_content_type == "application/json":
        return pd.DataFrame(json.loads(request_body)["instances"], columns=COLUMNS)
    raise ValueError("{} is not supported by this script".format(request_content_type))


def predict_fn(input_object, model):
    print("rows:", len(input_object))
    return model.predict_proba(input_object)[:, 1]


def output_fn(prediction, response_content_type):
    if response_content_type == "text/csv":
        return "\n".join("%.3f" % value for value in prediction), response_content_type
    return json.dumps({"probabilities": prediction.round(3).tolist()}), "application/json"

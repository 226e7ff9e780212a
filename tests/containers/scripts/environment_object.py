"""Reads from the framework package what other scripts read from variables."""

import json
import logging
import os

import numpy as np
import sagemaker_containers
from sagemaker_containers.beta.framework import content_types, encoders, worker

logging.basicConfig(format="%(message)s", level=int(os.environ.get("SM_LOG_LEVEL", "20")))
logger = logging.getLogger(__name__)


def train(environment):
    hyperparameters = environment.hyperparameters
    folder = environment.channel_input_dirs["training"]
    rows = [np.loadtxt(os.path.join(folder, name), delimiter=",", ndmin=2) for name in sorted(os.listdir(folder))]
    is_first = environment.current_host == environment.hosts[0]
    logger.info("first host: %s, level %s", is_first, environment.log_level)
    power = hyperparameters.get("power", 1)
    means = (np.concatenate(rows) ** power).mean(axis=0)
    np.save(os.path.join(environment.model_dir, "means.npy"), means)
    with open(os.path.join(environment.output_data_dir, "environment.json"), "w") as file:
        json.dump(
            {"names": sorted(environment.channel_input_dirs), "power": power, "module": environment.module_name}, file
        )


def model_fn(model_dir):
    return np.load(os.path.join(model_dir, "means.npy"))


def input_fn(input_data, content_type):
    rows = encoders.decode(input_data, content_type)
    return np.atleast_2d(rows)


def predict_fn(input_data, model):
    return input_data - model


def output_fn(prediction, accept):
    if accept == content_types.JSON:
        instances = [{"features": row.tolist()} for row in prediction]
        return worker.Response(json.dumps({"instances": instances}), accept, mimetype=accept)
    return worker.Response(encoders.encode(prediction, accept), mimetype=accept)


if __name__ == "__main__":
    train(sagemaker_containers.training_env())

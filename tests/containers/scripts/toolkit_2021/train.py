"""Trains with the training toolkit's environment and a package of its requirements."""

import json
import os

import tiny_scaling
from sagemaker_training import environment

if __name__ == "__main__":
    env = environment.Environment()
    print("hosts:", env.hosts, "jobs:", env.job_name)
    factor = tiny_scaling.scaled(env.hyperparameters["factor"], 1)
    with open(os.path.join(env.model_dir, "factor.json"), "w") as file:
        json.dump({"factor": factor}, file)

"""Answers with one function; loads its weights from an unchecked pickle, as many scripts do."""

import argparse
import json
import os
import pickle

JSON = "application/json"

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-b", "--b", type=float)
    parser.add_argument("--weights", type=json.loads, default="[]")
    parser.add_argument("--sm-model-dir", type=str, default=os.environ.get("SM_MODEL_DIR"))
    args = parser.parse_args()
    with open(os.path.join(args.sm_model_dir, "weights.pkl"), "wb") as file:
        pickle.dump({"weights": args.weights, "bias": args.b}, file)


def model_fn(model_dir):
    with open(os.path.join(model_dir, "weights.pkl"), "rb") as file:
        return pickle.load(file)


def transform_fn(model, request_body, content_type, accept_type):
    if content_type != JSON:
        return "only {} is taken".format(JSON), "text/plain"
    inputs = json.loads(request_body)["inputs"]
    scores = [sum(w * x for w, x in zip(model["weights"], row)) + model["bias"] for row in inputs]
    return json.dumps({"outputs": scores}).encode(), JSON

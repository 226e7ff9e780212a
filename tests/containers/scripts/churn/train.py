"""A current script: it only trains, with the serving code beside it; columns have names, and settings are text and booleans."""

import argparse
import json
import logging
import os
import sys

import joblib
import pandas as pd
from preparation import COLUMNS, pipeline

logger = logging.getLogger(__name__)
logger.setLevel(logging.DEBUG)
logger.addHandler(logging.StreamHandler(sys.stdout))


def flag(text):
    return {"true": True, "false": False}[str(text).lower()]


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n_estimators", type=int, default=10)
    parser.add_argument("--fit_intercept", type=flag, default=True)
    parser.add_argument("--penalty_strength", type=float, default=1.0)
    parser.add_argument("--title", type=str, default="")
    parser.add_argument("--hosts", type=list, default=json.loads(os.environ["SM_HOSTS"]))
    parser.add_argument("--current-host", type=str, default=os.environ["SM_CURRENT_HOST"])
    parser.add_argument("--train", type=str, default=os.environ.get("SM_CHANNEL_TRAIN"))
    parser.add_argument("--validation", type=str, default=os.environ.get("SM_CHANNEL_VALIDATION"))
    return parser.parse_known_args()


if __name__ == "__main__":
    args, unknown = parse_args()
    logger.info("unknown arguments: %s", unknown)
    logger.debug("title %r, intercept %s", args.title, args.fit_intercept)
    frames = [
        pd.read_csv(os.path.join(args.train, name), header=None, names=[*COLUMNS, "left"])
        for name in os.listdir(args.train)
    ]
    frame = pd.concat(frames)
    model = pipeline(fit_intercept=args.fit_intercept, C=args.penalty_strength).fit(frame[COLUMNS], frame["left"])
    print(f"validation:accuracy={model.score(frame[COLUMNS], frame['left']):.2f}")
    joblib.dump(model, os.path.join(os.environ["SM_MODEL_DIR"], "model.joblib"))
    settings = {
        "hyperparameters": json.loads(os.environ["SM_HPS"]),
        "channels": json.loads(os.environ["SM_CHANNELS"]),
        "current": json.loads(os.environ["SM_RESOURCE_CONFIG"])["current_host"],
        "inputs": json.loads(os.environ["SM_INPUT_DATA_CONFIG"]),
        "entry": os.environ["SM_USER_ENTRY_POINT"],
        "title": args.title,
        "intercept": args.fit_intercept,
        "hosts": args.hosts,
        "processors": int(os.environ["SM_NUM_CPUS"]) > 0 and os.environ["SM_NUM_GPUS"].isdigit(),
    }
    with open(os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], "settings.json"), "w") as file:
        json.dump(settings, file)
    sys.exit(0)

"""A script of 2018: one file, the old framework package, joblib as scikit-learn still carried it, default functions."""

from __future__ import print_function

import argparse
import os

import pandas as pd
from sklearn import tree
from sklearn.externals import joblib

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_leaf_nodes", type=int, default=-1)
    parser.add_argument("--output-data-dir", type=str, default=os.environ["SM_OUTPUT_DATA_DIR"])
    parser.add_argument("--model-dir", type=str, default=os.environ["SM_MODEL_DIR"])
    parser.add_argument("--train", type=str, default=os.environ["SM_CHANNEL_TRAIN"])
    args = parser.parse_args()

    files = [os.path.join(args.train, name) for name in os.listdir(args.train)]
    if len(files) == 0:
        raise ValueError("no files in {}: was the channel given the right name?".format(args.train))
    table = pd.concat([pd.read_csv(name, header=None, engine="python") for name in files])
    labels = table.iloc[:, 0]
    features = table.iloc[:, 1:]
    model = tree.DecisionTreeClassifier(max_leaf_nodes=args.max_leaf_nodes).fit(features.values, labels)
    print("leaves:", model.get_n_leaves())
    joblib.dump(model, os.path.join(args.model_dir, "model.joblib"))


def model_fn(model_dir):
    return joblib.load(os.path.join(model_dir, "model.joblib"))

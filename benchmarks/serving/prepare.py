"""Generate data like Abalone's, fit both stages, and compute the right answer to every row."""

from __future__ import annotations

import json
import os
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

FEATURES = ["sex", "length", "diameter", "height", "whole_weight", "shucked_weight", "viscera_weight", "shell_weight"]
ROWS = 4177


def make_frame(rows=ROWS, seed=0):
    """Shells: a sex, seven measurements correlated with size, a number of rings."""
    random = np.random.default_rng(seed)
    length = random.beta(6, 4, rows) * 0.75 + 0.05
    weight = 3.0 * length**3 * random.lognormal(0, 0.15, rows)
    measures = [
        length,
        length * random.normal(0.8, 0.02, rows),
        length * random.normal(0.27, 0.02, rows),
        weight,
        *(weight * random.normal(share, 0.02, rows) for share in (0.43, 0.22, 0.29)),
    ]
    frame = pd.DataFrame({name: np.round(column, 4) for name, column in zip(FEATURES[1:], measures, strict=True)})
    frame.insert(0, "sex", random.choice(["M", "F", "I"], rows))
    rings = 3 + 12 * length + 4 * weight + (frame["sex"] != "I") + random.normal(0, 1.5, rows)
    return frame, np.round(rings)


def prepare(folder):
    """Fit both stages into a folder (once), and give bodies of one row with the right score of each."""
    folder = Path(folder)
    (folder / "featurizer" / "model").mkdir(parents=True, exist_ok=True)
    (folder / "linear").mkdir(parents=True, exist_ok=True)
    frame, rings = make_frame()
    numbers = Pipeline([("imputer", SimpleImputer(strategy="median")), ("scaler", StandardScaler())])
    words = Pipeline(
        [
            ("imputer", SimpleImputer(strategy="constant", fill_value="missing")),
            ("onehot", OneHotEncoder(handle_unknown="ignore")),
        ]
    )
    featurizer = ColumnTransformer([("num", numbers, FEATURES[1:]), ("cat", words, ["sex"])])
    features = featurizer.fit_transform(frame)
    model = LinearRegression().fit(features, rings)
    joblib.dump(featurizer, folder / "featurizer" / "model" / "model.joblib")
    weights = {"coefficients": model.coef_.tolist(), "intercept": float(model.intercept_)}
    (folder / "linear" / "weights.json").write_text(json.dumps(weights))
    os.environ["SERVING_MODELS"] = str(folder)
    sample = frame.head(256)
    texts = sample.to_csv(header=False, index=False).splitlines()
    scores = (features[: len(sample)] @ model.coef_ + model.intercept_).tolist()
    return list(zip(texts, scores, strict=True))

"""What training and serving share."""

from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

COLUMNS = ["plan", "months", "calls"]


def pipeline(**options):
    columns = ColumnTransformer(
        [("plan", OneHotEncoder(handle_unknown="ignore"), ["plan"]), ("numbers", StandardScaler(), ["months", "calls"])]
    )
    return make_pipeline(columns, LogisticRegression(**options))

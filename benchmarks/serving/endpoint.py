"""Headrace's endpoint of both stages, in the foreground: ``python -m benchmarks.serving.endpoint '{"port": 9100}'``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from headrace.hosting.endpoint import log_to_standard_error
from headrace.hosting.http.server import serve
from headrace.hosting.settings import Settings
from headrace.hosting.stage import Stage

SCRIPT = Path(__file__).parent / "featurizer.py"


def stages(folder):
    """The featurizer script, and the linear model behind it."""
    first = Stage(
        factory="headrace.containers.script:ScriptContainer",
        arguments={"entry_point": str(SCRIPT), "rows_independent": True},
        model_dir=str(Path(folder) / "featurizer" / "model"),
    )
    linear = Stage(
        factory="benchmarks.serving.linear:Linear",
        arguments={"folder": str(Path(folder) / "linear")},
        path=(str(Path(__file__).parents[2]),),
    )
    return [first, linear]


if __name__ == "__main__":
    log_to_standard_error()
    serve(stages(os.environ["SERVING_MODELS"]), Settings(**json.loads(sys.argv[1])), title="abalone")

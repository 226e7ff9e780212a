"""Headrace's endpoint of both stages, in the foreground: ``python -m benchmarks.serving.endpoint '{"port": 9100}'``.

A second argument is the number of replicas under Ray Serve, whose proxy then listens in place of Headrace's own server.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from headrace.hosting.http.server import serve
from headrace.hosting.ray.run import serve_on_ray
from headrace.hosting.run import log_to_standard_error
from headrace.hosting.settings import RaySettings, Settings
from headrace.hosting.stage import Stage

SCRIPT = Path(__file__).parent / "featurizer.py"


def stages(folder):
    """The featurizer script, followed by the linear model."""
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
    found, settings = stages(os.environ["SERVING_MODELS"]), Settings(**json.loads(sys.argv[1]))
    if len(sys.argv) > 2:
        serve_on_ray(found, settings, RaySettings(replicas=int(sys.argv[2])), name="abalone")
    else:
        serve(found, settings, title="abalone")

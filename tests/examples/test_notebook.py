"""The notebook runs, cell after cell, and predicts."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def code_of(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_from_a_table_to_an_endpoint(tmp_path):
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    environment = {
        **os.environ,
        "HEADRACE_STATE_DIR": str(tmp_path / "state"),
        "HEADRACE_SAGEMAKER_DIR": str(tmp_path / "store"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(tmp_path / "examples"), os.environ.get("PYTHONPATH")])),
    }
    done = subprocess.run(
        [sys.executable, "-c", code_of(EXAMPLES / "abalone_pipeline.ipynb")],
        cwd=tmp_path / "examples",
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.replace("'", '"'))
    assert 9 < answer["predictions"][0]["score"] < 10.5
    assert not list((tmp_path / "state" / "endpoints").glob("*/state.json"))


def test_the_notebook_holds_no_output():
    cells = json.loads((EXAMPLES / "abalone_pipeline.ipynb").read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)

"""The format on the page about testing, installed as a distribution: it passes the suite, and the commands know it."""

import os
import subprocess
import sys
import tomllib

import pytest
from tests.docs.pages import ROOT, blocks


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder on the path of modules with what the page shows, and what an installer makes of it."""
    folder = tmp_path_factory.mktemp("site")
    page = list(blocks((ROOT / "docs" / "testing.md").read_text(encoding="utf-8")))
    (code,) = [block.code for block in page if "FORMAT = Format(" in block.code]
    (suite,) = [block.code for block in page if "(FormatTests)" in block.code]
    (project,) = [tomllib.loads(block.code)["project"] for block in page if block.language == "toml"]
    (folder / "rows_format.py").write_text(code, encoding="utf-8")
    (folder / "test_rows_format.py").write_text(suite, encoding="utf-8")
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [line for group, each in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in each.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


def run(folder, *arguments):
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


FEWER_EXAMPLES = """
from hypothesis import settings
settings.register_profile("few", max_examples=20, deadline=None, derandomize=True)
settings.load_profile("few")
"""


def test_it_passes_the_suite(installed):
    (installed / "conftest.py").write_text(FEWER_EXAMPLES, encoding="utf-8")
    done = run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_rows_format.py")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_the_commands_know_it(installed):
    write = "import headrace as hr, numpy as np; hr.write('squares.rows', {'n': np.arange(5)})"
    assert run(installed, "-c", write).returncode == 0
    (installed / "squares.rows").rename(installed / "unnamed")
    done = run(installed, "-m", "headrace", "inspect", "unnamed")
    assert done.returncode == 0, done.stderr
    assert "format       rows" in done.stdout
    assert "records      5" in done.stdout
    done = run(installed, "-m", "headrace", "convert", "unnamed", "x.tfrecord")
    assert done.returncode == 0, done.stderr
    assert run(installed, "-m", "headrace", "verify", "unnamed").returncode == 0

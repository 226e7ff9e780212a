"""What notebooks show: small, escaped, without files outside, whatever the data."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import headrace as hr
from headrace.hosting.endpoint import Endpoint
from headrace.hosting.registry import EndpointEntry
from headrace.jobs.record import JobFiles, JobRecord
from headrace.testing import KINDS, kinds_batch
from headrace.viewer.notebook import MOST_HTML, to_html

HOSTILE = [
    "<script>alert(1)</script>",
    "\u202egnp.exe",
    "a\x00b\x1b[31m",
    '"><img src=x onerror=alert(1)>',
    "&amp;",
    "x" * 10_000,
]


def shown(value):
    html = value._repr_html_()
    assert html is not None
    assert len(html) <= MOST_HTML
    assert not re.search(
        r"<(?!/?(div|p|table|thead|tbody|tr|th|td|span|code|ul|ol|li|details|summary|img|a|svg|path|polyline)\b)", html
    )
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b]", html)
    assert not re.search(r"(src|href)=\"(?!data:image/(png|jpeg);base64,)", html)
    return html


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_feature(name):
    source = hr.ColumnSource(kinds_batch(9, [name]))
    assert html_rows(shown(source)) == 5
    assert html_rows(shown(source[name])) == 5
    assert name in shown(source.schema)


def html_rows(html):
    return html.partition("<tbody>")[2].count("<tr>")


def test_hostile_text_and_names():
    batch = {f"{name}{at}": [text.replace("\x00", "") or "." for text in HOSTILE] for at, name in enumerate(HOSTILE)}
    source = hr.ColumnSource(batch)
    for value in (source, source.schema, source[next(iter(batch))]):
        html = shown(value)
        assert "onerror" not in re.sub(r"&[a-z0-9#]+;[^<]*", "", html)
    assert "&lt;script&gt;" in shown(source)


def test_thumbnails_are_in_the_page():
    pytest.importorskip("PIL")
    pixels = np.random.default_rng(0).integers(0, 255, (3, 200, 300, 3), np.uint8)
    html = shown(hr.ColumnSource({"image": pixels, "label": np.arange(3)}))
    assert html.count('src="data:image/') == 3
    assert len(html) < 100_000


def test_it_is_bounded():
    wide = hr.ColumnSource({f"f{number}": np.zeros(3) for number in range(2000)})
    assert "and 1,988 more features" in shown(wide)
    assert "and 1,970 more features" in shown(wide.schema)
    assert len(shown(hr.ColumnSource({"x": ["y" * 10_000_000] * 3}))) < 20_000
    assert len(shown(hr.ColumnSource({"x": np.zeros((3, 1_000_000))}))) < 20_000
    assert html_rows(shown(hr.Strings.from_values(["a"] * 1000))) == 5
    assert html_rows(shown(hr.Ragged.from_list([[1, 2]] * 1000))) == 5


def test_filters_are_not_evaluated():
    read = []

    def keep(example):
        read.append(1)
        return True

    html = shown(hr.ColumnSource({"x": np.arange(10_000)}).filter(keep))
    assert "filtered examples" in html
    assert len(read) < 1000


def test_a_row_that_fails_is_shown_as_its_error():
    def fail(example):
        if example["x"] == 1:
            raise ValueError("<b>broken</b>")
        return example

    html = shown(hr.ColumnSource({"x": np.arange(3)}).map(fail))
    assert "&lt;b&gt;broken&lt;/b&gt;" in html
    assert html_rows(html) == 3
    damaged = hr.ColumnSource({"image": [b"\xff\xd8\xff\xe0 no image"] * 2})
    assert html_rows(shown(damaged)) == 2


def test_what_cannot_be_read_at_all_is_left_to_the_repr():
    def fail(example):
        raise ValueError("broken")

    assert hr.ColumnSource({"x": np.arange(3)}).map(fail)._repr_html_() is None
    assert shown(hr.ColumnSource({"x": np.arange(3)})[:0])


def test_results_are_tables(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / "state"))
    path = tmp_path / "<b>x.tfrecord"
    hr.write(path, [{"<i>name</i>": row, "text": "x" * 50} for row in range(20)])
    assert "all 20 examples" in shown(hr.stats(path))
    assert "&lt;i&gt;name&lt;/i&gt;" in shown(hr.stats(path))
    found = shown(hr.stats({"f": np.array([np.nan, np.inf, -np.inf, 0.1] * 25)}))
    assert "<th>nan</th><th>infinite</th>" in found
    assert "25</td>" in found
    assert "50</td>" in found
    assert "20" in shown(hr.convert(path, tmp_path / "y.array_record"))
    assert "True" in shown(hr.verify(path))
    content = bytearray(path.read_bytes())
    for row in range(15):
        content[hr.records(path).where(row).offset + 30] ^= 1
    path.write_bytes(content)
    html = shown(hr.verify(path))
    assert "and 5 more faults" in html
    assert "&lt;b&gt;x.tfrecord" in html


def test_jobs_and_endpoints_are_tables(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / "state"))
    record = JobRecord(JobFiles(tmp_path), {"TrainingJobName": "<b>job</b>", "TrainingJobStatus": "Completed"})
    assert "&lt;b&gt;job&lt;/b&gt;" in shown(record)
    assert "Stopped" in shown(Endpoint(EndpointEntry("gone")))


class _Formatter:
    """What IPython has for one media type: functions by type, found by the classes that a value's class derives from."""

    def __init__(self):
        self.functions = {}

    def for_type(self, kind, function=None):
        earlier = self.functions.get(kind)
        if function is not None:
            self.functions[kind] = function
        return earlier

    def __call__(self, value):
        found = next((self.functions[kind] for kind in type(value).__mro__ if kind in self.functions), None)
        if found is not None:
            return found(value)
        method = getattr(type(value), "_repr_html_", None)
        return None if method is None else method(value)


@pytest.fixture
def formatter():
    found = _Formatter()
    hr.load_ipython_extension(SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": found})))
    return found


@pytest.mark.parametrize("name", KINDS)
def test_batches_of_every_kind_display(formatter, name):
    batch = kinds_batch(9, [name])
    html = formatter(batch)
    assert html_rows(html) == 5
    assert f"batch of 9 rows: {name} " in html
    loaded = next(iter(hr.Loader(hr.ColumnSource(batch), 4)))
    assert type(loaded) is dict
    assert html_rows(formatter(loaded)) == 4


def test_batches_show_names_types_and_shapes(formatter):
    batch = {
        "image": np.zeros((6, 8, 8, 3), np.uint8),
        "text": hr.Strings.from_values(["<b>"] * 6),
        "several": [np.zeros(n + 1) for n in range(6)],
    }
    html = formatter(batch)
    assert "batch of 6 rows: image uint8 (6, 8, 8, 3), text str (6), several arrays (6, ...)" in html
    assert "&lt;b&gt;" in html
    if importlib.util.find_spec("PIL"):
        assert html.count('src="data:image/') == 5
    assert "and 1,988 more features" in formatter({f"f{number}": np.zeros(3) for number in range(2000)})


@pytest.mark.parametrize("to", ["torch", "jax"])
@pytest.mark.parametrize("name", ["flag", "int32", "float32", "vector", "ragged", "text", "sparse"])
def test_batches_of_tensors_show_what_those_of_arrays_do(formatter, name, to):
    pytest.importorskip(to)
    source = hr.ColumnSource(kinds_batch(9, [name]))
    batch = next(iter(hr.Loader(source, 7, to=to)))
    found, wanted = formatter(batch), formatter(next(iter(hr.Loader(source, 7))))
    assert found.partition("</p>")[0].startswith(f"<div><p>batch of 7 rows: {name} ")
    assert html_rows(found) == 5
    assert re.findall("<tbody>.*", found) == re.findall("<tbody>.*", wanted)
    if isinstance(batch[name], hr.Ragged):
        assert html_rows(shown(batch[name])) == 5


def test_tensors_that_numpy_lacks(formatter):
    torch = pytest.importorskip("torch")
    html = formatter({"x": torch.ones(6, 2, dtype=torch.bfloat16, requires_grad=True), "y": torch.zeros(6)})
    assert "batch of 6 rows: x torch.bfloat16 (6, 2), y torch.float32 (6)" in html
    assert html_rows(html) == 5
    assert formatter({"x": torch.zeros(())}) is None
    assert formatter({"x": torch.zeros(3, device="meta")}) is None


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": 1},
        {"a": [1, 2]},
        {"a": np.zeros(2), "b": 1},
        {"a": np.zeros(2), "b": np.zeros(3)},
        {1: np.zeros(2)},
        {"a": np.array(1)},
    ],
)
def test_other_dicts_look_as_before(formatter, value):
    assert formatter(value) is None


class Own(dict):
    def _repr_html_(self):
        return "own"


class Plain(dict):
    pass


def test_classes_of_others_look_as_before(formatter):
    assert formatter(Own(a=np.zeros(2))) == "own"
    assert formatter(Plain(a=np.zeros(2))) is None


def test_what_others_have_registered_stays():
    found = _Formatter()
    found.for_type(dict, lambda value: f"theirs {len(value)}")
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": found}))
    for _ in range(3):
        hr.load_ipython_extension(shell)
    assert found({"a": 1}) == "theirs 1"
    assert found(Plain(a=np.zeros(2))) == "theirs 1"
    assert found(Own(a=np.zeros(2))) == "theirs 1"  # as without Headrace
    assert "batch of 2 rows" in found({"a": np.zeros(2)})


NOTEBOOK = """
import sys, types
sys.modules["IPython"] = shells = types.ModuleType("IPython")
seen = []
formatter = types.SimpleNamespace(for_type=lambda kind, function=None: seen.append((kind, function)))
shell = types.SimpleNamespace(display_formatter=types.SimpleNamespace(formatters={"text/html": formatter}))
shells.get_ipython = lambda: shell if sys.argv[1] == "runs" else None
import headrace
assert bool(seen) == (sys.argv[1] == "runs"), seen
assert "numpy" not in sys.modules
"""


@pytest.mark.parametrize("state", ["runs", "rests"])
def test_importing_in_a_notebook_is_enough(state):
    subprocess.run([sys.executable, "-c", NOTEBOOK, state], check=True)


def test_a_batch_with_masked_values_is_left_to_numpy():
    assert to_html({"x": np.ma.array([1, 2], mask=[0, 1])}) is None

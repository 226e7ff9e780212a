"""What notebooks show: small, escaped, without files outside, whatever the data."""

from __future__ import annotations

import re

import numpy as np
import pytest

import headrace as hr
from headrace.hosting.endpoint import Endpoint
from headrace.hosting.registry import EndpointEntry
from headrace.jobs.record import JobFiles, JobRecord
from headrace.testing import KINDS, kinds_batch
from headrace.viewer.notebook import MOST_HTML

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

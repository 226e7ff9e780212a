"""Validation of transform jobs."""

from __future__ import annotations

import pytest

from headrace.errors import JobFailed
from headrace.jobs.transform.spec import ExecutionParameters, TransformSpec

GIVEN = {"name": "job", "input_uri": "in", "output_path": "out"}
CSV = {"content_type": "text/csv", "accept": "text/csv"}
LINES = {"split_type": "Line", "assemble_with": "Line"}


def spec(**options):
    return TransformSpec(**{**GIVEN, **options})


def test_the_defaults_are_those_of_the_api():
    made = spec()
    assert (made.data_type, made.compression, made.split_type, made.assemble_with) == (
        "S3Prefix",
        "None",
        "None",
        "None",
    )
    assert (made.strategy, made.max_payload_mb, made.max_concurrent_transforms) == (None, None, None)
    assert (made.input_filter, made.output_filter, made.join_source) == ("$", "$", "None")
    assert (made.invocations_timeout_s, made.invocations_max_retries) == (600, 3)


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "SingleRecord", "split_type": "RecordIO"},
        {"max_payload_mb": 0},
        {"max_payload_mb": 100, "max_concurrent_transforms": 1},
        {"max_payload_mb": 10, "max_concurrent_transforms": 10},
        {"max_concurrent_transforms": 0},
        {"input_filter": "$[1:]", "content_type": "text/csv; charset=utf-8"},
        {"content_type": "text/csv; charset=utf-16"},
        {"content_type": "text/csv; charset=utf-8-sig", **LINES},
        {"content_type": "text/csv; charset=x", **LINES},
        {"input_filter": "$.features", "content_type": "application/jsonlines"},
        {"output_filter": "$.score"},  # whatever the model answers
        {"output_filter": "$['a']", "accept": "application/json"},
        {"join_source": "Input", **CSV, **LINES},
        {"join_source": "Input", "content_type": "application/json", "accept": "application/json"},
        {"join_source": "Input", **LINES, "content_type": "text/csv", "accept": "application/jsonlines", "output_filter": "$.SageMakerOutput"},
        {"join_source": "Input", **LINES, "content_type": "application/jsonlines", "accept": "text/csv", "output_filter": "$.SageMakerOutput"},
        {"environment": {str(n): "x" for n in range(16)}},
        {"invocations_timeout_s": 1, "invocations_max_retries": 0},
        {"invocations_timeout_s": 3600},
    ],
)  # fmt: skip
def test_valid_settings(options):
    made = spec(**options)
    assert TransformSpec(**made.to_json()) == made


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ({"name": "-"}, "its name must be"),
        ({"name": "a" * 64}, "its name must be"),
        ({"data_type": "Prefix"}, "data_type must be one of S3Prefix, ManifestFile, got 'Prefix'"),
        ({"compression": "gzip"}, "compression must be one of None, Gzip"),
        ({"split_type": None}, "split_type must be one of None, Line, RecordIO, TFRecord, got None"),
        ({"assemble_with": "RecordIO"}, "assemble_with must be one of None, Line"),
        ({"join_source": "input"}, "join_source must be one of None, Input"),
        ({"strategy": "MULTI_RECORD", "split_type": "Line"}, "strategy must be one of MultiRecord, SingleRecord"),
        ({"strategy": "SingleRecord"}, "needs split_type="),
        ({"content_type": "text/csv; charset=utf-16", "split_type": "Line"}, "byte of a newline, got 'utf-16'"),
        ({"max_payload_mb": 101}, "max_payload_mb must be 0 to 100, got 101"),
        ({"max_payload_mb": -1}, "max_payload_mb must be 0 to 100"),
        ({"max_concurrent_transforms": -1}, "must not be negative"),
        ({"max_payload_mb": 51, "max_concurrent_transforms": 2}, "may be 100 MB, got 51 x 2"),
        ({"invocations_timeout_s": 0}, "invocations_timeout_s must be 1 to 3600"),
        ({"invocations_timeout_s": 3601}, "invocations_timeout_s must be 1 to 3600"),
        ({"invocations_max_retries": 4}, "invocations_max_retries must be 0 to 3"),
        ({"environment": {str(n): "x" for n in range(17)}}, "17 environment variables; the limit is 16"),
        ({"environment": {"a" * 1025: ""}}, "the name of the environment variable"),
        ({"environment": {"a": "x" * 10241}}, "the value of the environment variable 'a'"),
        ({"input_filter": "$["}, "input_filter: "),
        ({"input_filter": "$[0]"}, "needs a content_type of text/csv"),
        ({"input_filter": "$[0]", "content_type": "application/x-npy"}, "needs a content_type of text/csv"),
        ({"input_filter": "$.a", "content_type": "text/csv"}, "is for JSON: a CSV row has positions"),
        ({"input_filter": "$[0]", "content_type": "text/csv", "split_type": "TFRecord"}, "whose records are not text"),
        ({"output_filter": "$[0]", "accept": "application/x-npy"}, "needs an accept of text/csv"),
        ({"output_filter": "$.a", "accept": "text/csv"}, "is for JSON"),
        ({"output_filter": "$.a", "join_source": "Input", **CSV, **LINES}, "is for JSON"),
        ({"join_source": "Input", **LINES, "accept": "text/csv"}, "needs content_type to be one of"),
        ({"join_source": "Input", **LINES, "content_type": "text/csv"}, "needs accept to be one of"),
        ({"join_source": "Input", **CSV, "split_type": "Line"}, "both 'Line' or both 'None', got 'Line' and 'None'"),
        ({"join_source": "Input", **CSV, "assemble_with": "Line"}, "both 'Line' or both 'None'"),
        ({"join_source": "Input", **CSV, "split_type": "RecordIO"}, "both 'Line' or both 'None'"),
    ],
)
def test_contradictory_settings(options, reported):
    with pytest.raises(ValueError, match="Transform job .* cannot be run") as caught:
        spec(**options)
    assert reported in str(caught.value)


def test_settings_of_other_types_are_reported_at_once():
    with pytest.raises(ValueError, match="cannot be run") as reported:
        spec(environment={"A": 1}, max_payload_mb="6", max_concurrent_transforms=1.5, input_filter=None)
    for part in (
        "the value of the environment variable 'A' must be a text",
        "max_payload_mb must be an integer or None, got '6'",
        "max_concurrent_transforms must be an integer or None, got 1.5",
        "input_filter must be a JSONPath such as '$', which is everything, got None",
    ):
        assert part in str(reported.value)


@pytest.mark.parametrize("own", [{"BatchStrategy": ["x"]}, {"MaxConcurrentTransforms": True}])
def test_execution_parameters_of_other_types(own):
    with pytest.raises(JobFailed, match="/execution-parameters must be like"):
        ExecutionParameters.of(spec(), own)


def test_everything_is_reported_at_once():
    with pytest.raises(ValueError, match=r"split_type .*; assemble_with .*; max_payload_mb"):
        spec(split_type="x", assemble_with="y", max_payload_mb=1000)

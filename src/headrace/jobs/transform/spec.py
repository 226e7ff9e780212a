"""The settings of a transform job, checked against the limits of SageMaker's API.

The settings of the caller come first, then those that the container reports, then the defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, cast, get_args

from headrace.containers.content_types import charset, media_type
from headrace.errors import JobFailed
from headrace.io.json_text import load_json
from headrace.jobs.spec import JOB_NAME, is_number, is_whole
from headrace.jobs.transform.jsonpath import JsonPath

__all__ = [
    "CSV",
    "FORMATS",
    "JSON",
    "JSON_LINES",
    "ExecutionParameters",
    "Split",
    "Strategy",
    "TransformSpec",
    "variables_of",
]


Split = Literal["None", "Line", "RecordIO", "TFRecord"]
Strategy = Literal["MultiRecord", "SingleRecord"]

CSV, JSON, JSON_LINES = "text/csv", "application/json", "application/jsonlines"
FORMATS = (CSV, JSON, JSON_LINES)
"""The formats that filters and joins support."""

MOST_PAYLOAD_MB = 100
NUMBERS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "max_payload_mb": ("an integer or None", lambda value: value is None or is_whole(value)),
    "max_concurrent_transforms": ("an integer or None", lambda value: value is None or is_whole(value)),
    "invocations_timeout_s": ("a number", is_number),
    "invocations_max_retries": ("an integer", is_whole),
}
MOST_VARIABLES = 16
MOST_VARIABLE_CHARACTERS = {"name": 1024, "value": 10240}
LONGEST_INVOCATION_S = 3600
MOST_RETRIES = 3
CHOICES: dict[str, tuple[str, ...]] = {
    "data_type": ("S3Prefix", "ManifestFile"),
    "compression": ("None", "Gzip"),
    "split_type": get_args(Split),
    "assemble_with": ("None", "Line"),
    "join_source": ("None", "Input"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformSpec:
    """A batch transform job, in the terms of ``CreateTransformJob``.

    Args:
        name: 1 to 63 letters, digits and hyphens; unique.
        input_uri: The URI of the objects.
        data_type: ``"S3Prefix"`` takes all objects whose URI begins with ``input_uri``, ``"ManifestFile"`` those listed in it.
        content_type: The content type of the objects, sent to the containers. ``None``: containers assume ``application/json``.
        compression: ``"Gzip"`` inflates the objects.
        split_type: What a record is: a line, a RecordIO or TFRecord record; ``"None"``: the whole object.
        strategy: ``"MultiRecord"`` puts as many records into a request as fit, ``"SingleRecord"`` one. ``None``: as the
            container reports, else ``"MultiRecord"``.
        assemble_with: ``"Line"`` ends every answer with a newline, unless it has one; ``"None"`` does not change answers.
        accept: The content type of the answers; ``None``: the default of the model.
        output_path: URI of the folder of the answers.
        max_payload_mb: Largest request in MB (of 2^20 bytes), 0 to 100; 0: no limit. ``None``: as the container reports, else 6.
        max_concurrent_transforms: Concurrent requests, each in its own process. ``None`` and 0: as the container reports, else 1.
        environment: More variables for the containers, up to 16.
        input_filter: JSONPath of the part of a record that the model gets. See :mod:`headrace.jobs.transform.jsonpath`.
        output_filter: JSONPath of the part of an answer that is stored (of input and answer, if they are joined).
        join_source: ``"Input"`` stores records together with their answers.
        invocations_timeout_s: How long an answer may take, 1 to 3600.
        invocations_max_retries: How often to repeat a failed request, 0 to 3.

    Raises:
        ValueError: Settings beyond a limit or in conflict; the message lists all of them.
    """

    name: str
    input_uri: str
    data_type: str = "S3Prefix"
    content_type: str | None = None
    compression: str = "None"
    split_type: str = "None"
    strategy: str | None = None
    assemble_with: str = "None"
    accept: str | None = None
    output_path: str
    max_payload_mb: int | None = None
    max_concurrent_transforms: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    input_filter: str = "$"
    output_filter: str = "$"
    join_source: str = "None"
    invocations_timeout_s: float = 600
    invocations_max_retries: int = 3

    def __post_init__(self) -> None:
        problems = [*self._choices(), *self._limits(), *self._of_variables(), *self._of_filters(), *self._of_join()]
        if problems:
            raise ValueError(f"Transform job {self.name!r} cannot be run: " + "; ".join(problems))

    @property
    def split(self) -> Split:
        """``split_type`` with its literal type."""
        return cast("Split", self.split_type)

    @property
    def input_format(self) -> str | None:
        """The content type without its parameters."""
        return None if self.content_type is None else media_type(self.content_type)

    @property
    def output_format(self) -> str | None:
        """The requested type without its parameters; ``None`` for the default of the model."""
        accept = "" if self.accept is None else media_type(self.accept)
        return accept if accept not in ("", "*/*") else None

    @property
    def is_joined(self) -> bool:
        """Whether records are stored together with their answers."""
        return self.join_source == "Input"

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "environment": dict(self.environment)}

    def _choices(self) -> Iterator[str]:
        if not JOB_NAME.fullmatch(self.name):
            yield "its name must be 1 to 63 letters, digits and hyphens, and begin and end with a letter or a digit"
        for name, choices in CHOICES.items():
            if (found := getattr(self, name)) not in choices:
                yield f"{name} must be one of {', '.join(choices)}, got {found!r}"
        if self.strategy not in (None, *get_args(Strategy)):
            yield f"strategy must be one of {', '.join(get_args(Strategy))}, got {self.strategy!r}"
        elif self.strategy is not None and self.split_type == "None":
            yield f"strategy={self.strategy!r} needs split_type='Line', 'RecordIO' or 'TFRecord': without it, an object is one record"
        encoding = charset(self.content_type or "")
        if self.split_type == "Line" and not _has_newlines(encoding):
            yield f"split_type='Line' needs a charset in which a line ends with the byte of a newline, got {encoding!r}: convert the input to utf-8"

    def _limits(self) -> Iterator[str]:
        payload, concurrent = self.max_payload_mb, self.max_concurrent_transforms
        unfit = [
            f"{name} must be {kind}, got {getattr(self, name)!r}"
            for name, (kind, fits) in NUMBERS.items()
            if not fits(getattr(self, name))
        ]
        if unfit:
            yield from unfit
            return
        if payload is not None and not 0 <= payload <= MOST_PAYLOAD_MB:
            yield f"max_payload_mb must be 0 to {MOST_PAYLOAD_MB}, got {payload}"
        if concurrent is not None and concurrent < 0:
            yield f"max_concurrent_transforms must not be negative, got {concurrent}"
        if payload and concurrent and payload * concurrent > MOST_PAYLOAD_MB:
            yield f"max_payload_mb x max_concurrent_transforms may be {MOST_PAYLOAD_MB} MB, got {payload} x {concurrent}"
        if not 1 <= self.invocations_timeout_s <= LONGEST_INVOCATION_S:
            yield f"invocations_timeout_s must be 1 to {LONGEST_INVOCATION_S}, got {self.invocations_timeout_s}"
        if not 0 <= self.invocations_max_retries <= MOST_RETRIES:
            yield f"invocations_max_retries must be 0 to {MOST_RETRIES}, got {self.invocations_max_retries}"

    def _of_variables(self) -> Iterator[str]:
        if len(self.environment) > MOST_VARIABLES:
            yield f"it has {len(self.environment)} environment variables; the limit is {MOST_VARIABLES}"
        for name, value in self.environment.items():
            for what, text in (("name", name), ("value", value)):
                if _is_longer(text, MOST_VARIABLE_CHARACTERS[what]):
                    most = MOST_VARIABLE_CHARACTERS[what]
                    yield f"the {what} of the environment variable {str(name)[:40]!r} must be a text of up to {most} characters"

    def _of_filters(self) -> Iterator[str]:
        for name, format in (("input_filter", self.input_format), ("output_filter", self.output_format)):
            path = getattr(self, name)
            if not isinstance(path, str):
                yield f"{name} must be a JSONPath such as '$', which is everything, got {path!r}"
                continue
            try:
                parsed = JsonPath.parse(path)
            except ValueError as error:
                yield f"{name}: {error}"
                continue
            if parsed.is_everything:
                continue
            if name == "input_filter" and format not in FORMATS:
                yield f"{name}={path!r} needs a content_type of {', '.join(FORMATS)}, got {self.content_type!r}"
            elif name == "output_filter" and format not in (None, *FORMATS):
                yield f"{name}={path!r} needs an accept of {', '.join(FORMATS)}, got {self.accept!r}"
            elif format == CSV and not parsed.takes_columns and not self._becomes_json(name):
                yield f"{name}={path!r} is for JSON: a CSV row has positions, as in '$[1:]' or '$[0,-1]', not names"
            if self.split_type in ("RecordIO", "TFRecord"):
                yield f"{name}={path!r} does not work with split_type={self.split_type!r}, whose records are not text"

    def _becomes_json(self, name: str) -> bool:
        """Whether a CSV answer is JSON when it is filtered, because it was joined with JSON."""
        return name == "output_filter" and self.is_joined and self.input_format != CSV

    def _of_join(self) -> Iterator[str]:
        if not self.is_joined:
            return
        for name, given, format in (
            ("content_type", self.content_type, self.input_format),
            ("accept", self.accept, self.output_format),
        ):
            if format not in FORMATS:
                yield f"join_source='Input' needs {name} to be one of {', '.join(FORMATS)}, got {given!r}"
        if self.split_type not in ("None", "Line") or self.assemble_with != self.split_type:
            given = f"{self.split_type!r} and {self.assemble_with!r}"
            yield f"join_source='Input' needs split_type and assemble_with both 'Line' or both 'None', got {given}"


def _is_longer(text: object, most: int) -> bool:
    """Whether a value is no text of up to ``most`` characters."""
    return not isinstance(text, str) or len(text) > most


def _has_newlines(encoding: str) -> bool:
    """Whether text ends its lines as ASCII does, unlike that of UTF-16. An unknown charset is left to the model."""
    try:
        return "a\n".encode(encoding).endswith(b"a\n")
    except (LookupError, UnicodeError):
        return True


MEBIBYTE = 1 << 20
DEFAULT_PAYLOAD_MB = 6
STRATEGIES = {"MULTI_RECORD": "MultiRecord", "SINGLE_RECORD": "SingleRecord"}
WORDS = {name: word for word, name in STRATEGIES.items()}
MOST_WORKERS = 100  # a request has at least 1 MB, and all together have 100 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionParameters:
    """The effective settings of a run."""

    concurrent: int
    payload_mb: int
    strategy: str

    @classmethod
    def of(cls, spec: TransformSpec, own: Any) -> ExecutionParameters:
        """Combine the settings of a job with the container's answer to ``/execution-parameters`` (``None``: no answer).

        Raises:
            JobFailed: An invalid answer.
        """
        reported = _parse_parameters(own)
        strategy = spec.strategy or STRATEGIES[reported.get("BatchStrategy", "MULTI_RECORD")]
        payload = (
            reported.get("MaxPayloadInMB", DEFAULT_PAYLOAD_MB) if spec.max_payload_mb is None else spec.max_payload_mb
        )
        concurrent = spec.max_concurrent_transforms or reported.get("MaxConcurrentTransforms", 0) or 1
        return cls(concurrent=concurrent, payload_mb=payload, strategy=strategy)

    @property
    def limit(self) -> int:
        """Largest request in bytes; 0: no limit."""
        return self.payload_mb * MEBIBYTE

    @property
    def line(self) -> str:
        """As in SageMaker's log."""
        strategy = WORDS[self.strategy]
        return f"MaxConcurrentTransforms={self.concurrent}, MaxPayloadInMB={self.payload_mb}, BatchStrategy={strategy}"


def variables_of(spec: TransformSpec) -> dict[str, str]:
    """The environment of the containers, with the settings that the caller gave."""
    given = {
        "SAGEMAKER_MAX_PAYLOAD_IN_MB": spec.max_payload_mb,
        "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": spec.max_concurrent_transforms,
        "SAGEMAKER_BATCH_STRATEGY": None if spec.strategy is None else WORDS[spec.strategy],
    }
    settings = {name: str(value) for name, value in given.items() if value is not None}
    return {**spec.environment, "SAGEMAKER_BATCH": "true", **settings}


def _parse_parameters(own: Any) -> Mapping[str, Any]:
    if isinstance(own, str):
        try:
            own = load_json(own)
        except ValueError:
            raise _parameters_error(own) from None
    if own is None:
        return {}
    if not isinstance(own, Mapping) or own.get("BatchStrategy", "MULTI_RECORD") not in list(STRATEGIES):
        raise _parameters_error(own)
    for name, most in (("MaxPayloadInMB", 100), ("MaxConcurrentTransforms", MOST_WORKERS)):
        value = own.get(name, 0)
        if not is_whole(value) or not 0 <= value <= most:
            raise _parameters_error(own)
    return own


def _parameters_error(own: Any) -> JobFailed:
    known = (
        '{"MaxConcurrentTransforms": 1, "BatchStrategy": "MULTI_RECORD" or "SINGLE_RECORD", "MaxPayloadInMB": 0 to 100}'
    )
    return JobFailed(f"AlgorithmError: /execution-parameters must be like {known}, got {own!r}")

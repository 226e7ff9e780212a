"""How a job is run: what was asked for comes before what the container asks for, and that before the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import JobFailed
from headrace.io.json_text import load_json
from headrace.jobs.transform.spec import TransformSpec

__all__ = ["Parameters", "variables_of"]

MEBIBYTE = 1 << 20
DEFAULT_PAYLOAD_MB = 6
STRATEGIES = {"MULTI_RECORD": "MultiRecord", "SINGLE_RECORD": "SingleRecord"}
WORDS = {name: word for word, name in STRATEGIES.items()}
MOST_WORKERS = 100  # a request has at least a MB, and all together have 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a job is run with."""

    concurrent: int
    payload_mb: int
    strategy: str

    @classmethod
    def of(cls, spec: TransformSpec, own: Any) -> Parameters:
        """From a job and what its container answers to ``/execution-parameters`` (``None``: nothing).

        Raises:
            JobFailed: That is not what SageMaker knows.
        """
        told = _checked(own)
        strategy = spec.strategy or STRATEGIES[told.get("BatchStrategy", "MULTI_RECORD")]
        payload = told.get("MaxPayloadInMB", DEFAULT_PAYLOAD_MB) if spec.max_payload_mb is None else spec.max_payload_mb
        concurrent = spec.max_concurrent_transforms or told.get("MaxConcurrentTransforms", 0) or 1
        return cls(concurrent=concurrent, payload_mb=payload, strategy=strategy)

    @property
    def limit(self) -> int:
        """Bytes of a request; 0: without limit."""
        return self.payload_mb * MEBIBYTE

    @property
    def line(self) -> str:
        """As SageMaker's log has it."""
        strategy = WORDS[self.strategy]
        return f"MaxConcurrentTransforms={self.concurrent}, MaxPayloadInMB={self.payload_mb}, BatchStrategy={strategy}"


def variables_of(spec: TransformSpec) -> dict[str, str]:
    """The environment of the containers: of the settings, only those that were asked for."""
    given = {
        "SAGEMAKER_MAX_PAYLOAD_IN_MB": spec.max_payload_mb,
        "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": spec.max_concurrent_transforms,
        "SAGEMAKER_BATCH_STRATEGY": None if spec.strategy is None else WORDS[spec.strategy],
    }
    settings = {name: str(value) for name, value in given.items() if value is not None}
    return {**spec.environment, "SAGEMAKER_BATCH": "true", **settings}


def _checked(own: Any) -> Mapping[str, Any]:
    if isinstance(own, str):
        try:
            own = load_json(own)
        except ValueError:
            raise _unknown(own) from None
    if own is None:
        return {}
    if not isinstance(own, Mapping) or own.get("BatchStrategy", "MULTI_RECORD") not in STRATEGIES:
        raise _unknown(own)
    for name, most in (("MaxPayloadInMB", 100), ("MaxConcurrentTransforms", MOST_WORKERS)):
        value = own.get(name, 0)
        if not isinstance(value, int) or not 0 <= value <= most:
            raise _unknown(own)
    return own


def _unknown(own: Any) -> JobFailed:
    known = (
        '{"MaxConcurrentTransforms": 1, "BatchStrategy": "MULTI_RECORD" or "SINGLE_RECORD", "MaxPayloadInMB": 0 to 100}'
    )
    return JobFailed(f"AlgorithmError: /execution-parameters must be like {known}, got {own!r}")

"""Dialects: how requests become arguments of a script and its results become answers. One is ours, two are SageMaker's toolkits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headrace.containers import bodies, content_types
from headrace.containers.toolkit import encoders, errors, inference_decoder, transformer
from headrace.contracts.serving import Request
from headrace.errors import RequestError

__all__ = ["DIALECTS", "Dialect", "DialectName", "request_error"]

DialectName = Literal["fixed", "sagemaker_containers", "sagemaker_inference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way of calling a script.

    Args:
        content_type: Converts the request's header to the argument of the script.
        accept: Converts the ``Accept`` header, given the default and the supported types, if known.
        input_data: The body as the script gets it, given the content type.
        input_fn: The default ``input_fn``.
        output_fn: The default ``output_fn``.
        is_strict: Whether errors have the matching HTTP status. SageMaker answers 500.
        lets_choose_status: Whether exceptions of a script may carry a status.
        untyped: The content type of strings that a script returns without one; ``None``: the accepted type.
    """

    content_type: Callable[[str], str]
    accept: Callable[[str, str, tuple[str, ...]], str]
    input_data: Callable[[Request, str], Any]
    input_fn: Callable[[Any, str], Any]
    output_fn: Callable[[Any, str], Any]
    is_strict: bool
    lets_choose_status: bool = True
    untyped: str | None = None


def _choose_answer_type(header: str, default: str, answers: tuple[str, ...]) -> str:
    """The content type for the answer: the client's first choice that is supported, or else that names a type.

    Where nothing is left, because the default is refused, it is the header itself, which the default ``output_fn`` refuses.
    """
    possible = content_types.choose(header, answers, default) if answers else None
    if possible is not None:
        return possible
    named = tuple(media for media in content_types.parse_accept(header) if not media.endswith("*"))
    found = content_types.choose(header, (*named, *bodies.ENCODED), default)
    return found or (header if content_types.refuses(header, default) else default)


def _text_or_bytes(request: Request, content_type: str) -> Any:
    if content_type in content_types.TEXT_TYPES:
        return content_types.as_text(request.body, request.content_type)
    return request.body


def _fixed_input(input_data: Any, content_type: str) -> Any:
    body = input_data.encode() if isinstance(input_data, str) else bytes(input_data)
    array = bodies.decode(body, content_type)
    is_text = content_type in (content_types.CSV, content_types.JSON, content_types.JSONLINES)
    return bodies.to_float32(array, content_type) if is_text else array


def _fixed_output(prediction: Any, accept: str) -> Any:
    return bodies.encode(prediction, accept), accept


def _exact_type(header: str) -> str:
    return header or content_types.JSON


def _raw_accept(header: str, default: str, answers: tuple[str, ...]) -> str:
    _ = answers
    return default if header in ("", content_types.ANY) else header


def _exactly_text_or_bytes(request: Request, content_type: str) -> Any:
    return request.body.decode() if content_type in content_types.TEXT_TYPES else request.body


def _containers_input(input_data: Any, content_type: str) -> Any:
    array = encoders.decode(input_data, content_type)
    return array.astype(np.float32) if content_type in content_types.TEXT_TYPES else array


def _inference_input(input_data: Any, content_type: str) -> Any:
    array = inference_decoder.decode(input_data, content_type)
    if array.ndim == 1:  # as in the scikit-learn container, which reads a single column as a row
        array = array.reshape(1, -1)
    return array.astype(np.float32) if content_type in content_types.TEXT_TYPES else array


DIALECTS: dict[DialectName, Dialect] = {
    "fixed": Dialect(
        content_type=lambda header: content_types.media_type(header) or content_types.JSON,
        accept=_choose_answer_type,
        input_data=_text_or_bytes,
        input_fn=_fixed_input,
        output_fn=_fixed_output,
        is_strict=True,
    ),
    "sagemaker_containers": Dialect(
        content_type=_exact_type,
        accept=_raw_accept,
        input_data=_exactly_text_or_bytes,
        input_fn=_containers_input,
        output_fn=transformer.default_output_fn,
        is_strict=False,
        lets_choose_status=False,
        untyped="text/html; charset=utf-8",
    ),
    "sagemaker_inference": Dialect(
        content_type=_exact_type,
        accept=_raw_accept,
        input_data=_exactly_text_or_bytes,
        input_fn=_inference_input,
        output_fn=transformer.DefaultInferenceHandler().default_output_fn,
        is_strict=False,
    ),
}


def request_error(error: BaseException, function: str, dialect: Dialect, container: str) -> RequestError:
    """The error for a request whose function failed."""
    if isinstance(error, RequestError):
        return RequestError(
            error.status if dialect.is_strict else 500, error.reason, container=error.container or container
        )
    status: Any = getattr(error, "status_code", None)
    if dialect.lets_choose_status and isinstance(status, int) and 400 <= status <= 599 and hasattr(error, "message"):
        return RequestError(status, str(error.message), container=container)
    if dialect.is_strict and isinstance(error, errors.UnsupportedFormatError):
        unsupported = 406 if function == "output_fn" else 415
        return RequestError(unsupported, str(error).partition("\n")[0], container=container)
    return RequestError(500, f"{function} failed with {type(error).__name__}: {error}", container=container)

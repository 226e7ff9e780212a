"""A loaded script that answers requests."""

from __future__ import annotations

import json
import operator
import os
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import lru_cache
from typing import Any

from headrace.containers import bodies, content_types
from headrace.containers.code import ScriptModules
from headrace.containers.serving.dialects import Dialect, request_error
from headrace.containers.serving.functions import Context, Function, Functions
from headrace.containers.toolkit import params, shim
from headrace.contracts.serving import Request, Response

__all__ = ["ScriptHandler"]


class ScriptHandler:
    """Answers requests with a script's functions, as SageMaker's containers call them.

    Safe in threads if the script is.

    Args:
        functions: The functions of the script.
        model: The result of ``model_fn``.
        model_dir: The folder of the model.
        dialect: How requests become arguments.
        environment: The container's variables; only ``SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT`` is used here.
        name: The container's name, for errors.
        modules: The modules of the script, in place while it is called.
        resources: Closed at the end, such as a temporary folder with the script.
    """

    def __init__(
        self,
        functions: Functions,
        model: Any,
        *,
        model_dir: str,
        dialect: Dialect,
        environment: Mapping[str, str],
        name: str,
        modules: ScriptModules,
        resources: ExitStack | None = None,
    ) -> None:
        self.functions = functions
        self.model = model
        self.name = name
        self._modules = modules
        self._end = weakref.finalize(self, (resources or ExitStack()).close)
        self._model_dir = model_dir
        self._dialect = dialect
        name_of_default = params.DEFAULT_INVOCATIONS_ACCEPT_ENV
        default = environment.get(name_of_default) or os.environ.get(name_of_default)
        self._input_fn = functions.input_fn or Function("input_fn", dialect.input_fn)
        self._predict_fn = functions.predict_fn or Function("predict_fn", _predict)
        # The supported types are known only for the default output_fn.
        has_own = functions.output_fn is not None or functions.transform_fn is not None
        self._types = _cached_types(dialect, default or content_types.JSON, () if has_own else bodies.ENCODED)
        self._output_fn = functions.output_fn or Function("output_fn", dialect.output_fn)
        called = (functions.transform_fn, self._input_fn, self._predict_fn, self._output_fn)
        self._uses_context = any(function is not None and function.wants_context for function in called)
        self._unused_context = Context(model_dir)

    def __call__(self, request: Request, /) -> Response:
        """Answer one request.

        Raises:
            RequestError: 4xx, an invalid request; 500, a function of the script failed (``__cause__`` is its exception).
        """
        with shim.inside(), self._modules:
            return self._answer(request)

    def execution_parameters(self) -> Any:
        """The result of ``execution_parameters_fn``; ``None`` if the script does not define it."""
        function = self.functions.execution_parameters_fn
        if function is None:
            return None
        with shim.inside(), self._modules:
            return self._call(Function(function.name, lambda: _parameters(function.call())), self._context(None))

    def close(self) -> None:
        """Take the script's modules out of the process, and delete its temporary folder, if any. Also happens when the handler is garbage-collected."""
        self._end()

    def _answer(self, request: Request) -> Response:
        context = self._context_of(request)
        content_type, accept = self._types(request.content_type, request.accept)
        body = self._input_data(request, content_type)
        if self.functions.transform_fn is not None:
            result = self._call(self.functions.transform_fn, context, self.model, body, content_type, accept)
            return self._response(result, accept, context)
        prediction = self._predict(self._input(body, content_type, context), context)
        return self._output(prediction, accept, context)

    def _input_data(self, request: Request, content_type: str) -> Any:
        try:
            return self._dialect.input_data(request, content_type)
        except Exception as error:
            raise request_error(error, "reading the body", self._dialect, self.name) from error

    def _input(self, body: Any, content_type: str, context: Context) -> Any:
        return self._call(self._input_fn, context, body, content_type)

    def _predict(self, rows: Any, context: Context) -> Any:
        return self._call(self._predict_fn, context, rows, self.model)

    def _output(self, prediction: Any, accept: str, context: Context) -> Response:
        return self._response(self._call(self._output_fn, context, prediction, accept), accept, context)

    def _context_of(self, request: Request) -> Context:
        """The context of a request; if no function takes one, the same for all."""
        return self._context(request) if self._uses_context else self._unused_context

    def _context(self, request: Request | None) -> Context:
        headers: Mapping[str, str] = {}
        if request is not None:
            headers = {**request.headers, "content-type": request.content_type, "accept": request.accept}
        return Context(self._model_dir, headers)

    def _call(self, function: Function, context: Context, *args: Any) -> Any:
        try:
            return function.call(*args, context) if function.wants_context else function.call(*args)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a panic of a library in Rust is no Exception
            raise request_error(error, function.name, self._dialect, self.name) from error

    def _response(self, result: Any, accept: str, context: Context) -> Response:
        try:
            response = self._as_response(result, accept)
            if context.status is None and not context.response_headers:
                return response
            headers = {**response.headers, **context.response_headers}
            content_type = headers.pop("content-type", response.content_type)
            return _checked_response(response.body, content_type, context.status or response.status, headers)
        except Exception as error:
            raise request_error(error, "making the answer", self._dialect, self.name) from error

    def _as_response(self, result: Any, accept: str) -> Response:
        """The response for any result of a script: a Response, ``(body, content type)``, a string, bytes, or values."""
        if hasattr(result, "get_data") and hasattr(result, "status_code"):  # the toolkit's, or Flask's own
            content_type, headers = "", {}
            for name, value in result.headers.items():
                lower = name.lower()
                if lower == "content-type":
                    content_type = value
                elif lower != "content-length":
                    headers[lower] = value
            return _checked_response(result.get_data(), content_type or accept, result.status_code, headers)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], str):
            return Response(body=self._body(result[0], result[1]), content_type=result[1])
        content_type = self._dialect.untyped or accept if isinstance(result, str | bytes) else accept
        return Response(body=self._body(result, accept), content_type=content_type)

    def _body(self, value: Any, accept: str) -> bytes:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if not self._dialect.is_strict:
            raise TypeError(f"the script returned {type(value).__name__}, expected a string, bytes or a Response")
        return bodies.encode(value, content_types.media_type(accept))


def _checked_response(body: bytes, content_type: Any, status: Any, headers: Mapping[str, Any]) -> Response:
    """The response with what a script has set. Its numbers may be NumPy's.

    Raises:
        TypeError: A header is not text, or the status is not an integer.
    """
    for name, value in {"content-type": content_type, **headers}.items():
        if not isinstance(value, str):
            raise TypeError(f"the header {name} must be a str, got {value!r}, a {type(value).__name__}")
    try:
        number = operator.index(status)
    except TypeError:
        raise TypeError(f"the status must be an integer, got {status!r}, a {type(status).__name__}") from None
    return Response(body=body, content_type=content_type, status=number, headers=headers)


def _cached_types(
    dialect: Dialect, default_accept: str, answers: tuple[str, ...]
) -> Callable[[str, str], tuple[str, str]]:
    """A function from the two headers of a request to the script's arguments content type and accept."""

    @lru_cache(maxsize=64)
    def types(content_type: str, accept: str) -> tuple[str, str]:
        return dialect.content_type(content_type), dialect.accept(accept, default_accept, answers)

    return types


def _predict(rows: Any, model: Any) -> Any:
    """The default ``predict_fn``."""
    return model.predict(rows)


def _parameters(found: Any) -> Any:
    """The parameters in a result of ``execution_parameters_fn``, which may be a ``Response`` or JSON text, as in SageMaker."""
    text = found.get_data() if hasattr(found, "get_data") else found
    return json.loads(text) if isinstance(text, str | bytes) else text

"""The functions that a script may define, checked together, and the context that they may take."""

from __future__ import annotations

import difflib
import inspect
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from headrace.errors import JobFailed

__all__ = ["NUM_ARGUMENTS", "Context", "Function", "Functions", "collect"]


NUM_ARGUMENTS = {
    "model_fn": 1,
    "input_fn": 2,
    "predict_fn": 2,
    "output_fn": 2,
    "transform_fn": 4,
    "pre_model_fn": 1,
    "model_warmup_fn": 2,
    "execution_parameters_fn": 0,
}
"""The number of arguments of each; all but the last may take ``context`` as an additional argument."""

SIGNATURES = {
    "model_fn": "model_fn(model_dir)",
    "input_fn": "input_fn(input_data, content_type)",
    "predict_fn": "predict_fn(input_data, model)",
    "output_fn": "output_fn(prediction, accept)",
    "transform_fn": "transform_fn(model, input_data, content_type, accept)",
    "pre_model_fn": "pre_model_fn(model_dir)",
    "model_warmup_fn": "model_warmup_fn(model_dir, model)",
    "execution_parameters_fn": "execution_parameters_fn()",
}
SEPARATE = ("input_fn", "predict_fn", "output_fn")


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the script.

    Args:
        name: Its name.
        call: The function.
        wants_context: Whether it takes ``context`` as its last argument.
    """

    name: str
    call: Callable[..., Any]
    wants_context: bool = False

    def __call__(self, context: Any, *args: Any) -> Any:
        """Call it."""
        return self.call(*args, context) if self.wants_context else self.call(*args)


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """The functions that a script defines; ``None`` for defaults."""

    model_fn: Function
    input_fn: Function | None = None
    predict_fn: Function | None = None
    output_fn: Function | None = None
    transform_fn: Function | None = None
    pre_model_fn: Function | None = None
    model_warmup_fn: Function | None = None
    execution_parameters_fn: Function | None = None


def collect(module: ModuleType) -> Functions:
    """Collect and check the functions of a script.

    Raises:
        JobFailed: Invalid functions; the message lists all problems.
    """
    found: dict[str, Function] = {}
    problems = []
    for name, count in NUM_ARGUMENTS.items():
        given = getattr(module, name, None)
        if given is None:
            continue
        problem = _problem(name, given)
        if problem:
            problems.append(problem)
        else:
            found[name] = Function(name, given, _wants_context(given, count))
    if getattr(module, "model_fn", None) is None:
        problems.append(_missing_model_fn(module))
    clash = [name for name in SEPARATE if getattr(module, name, None) is not None]
    if getattr(module, "transform_fn", None) is not None and clash:
        problems.append(
            f"transform_fn replaces input_fn, predict_fn and output_fn, but the script also defines {', '.join(clash)}"
        )
    if problems:
        raise JobFailed(f"{module.__name__} cannot serve: " + "; ".join(problems))
    return Functions(**found)


def _positional(parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    """The parameters that take arguments by position, as all arguments are passed."""
    return [one for one in parameters if one.kind not in (one.KEYWORD_ONLY, one.VAR_KEYWORD)]


def _wants_context(function: Callable[..., Any], count: int) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return False  # built-in functions may have no signature
    return len(_positional(parameters)) == count + 1


def _problem(name: str, given: Any) -> str | None:
    if not callable(given):
        return f"{name} is not a function but {type(given).__name__}"
    if inspect.iscoroutinefunction(given) or inspect.isasyncgenfunction(given):
        return f"{name} is an async function, which is never awaited: define it with def, not async def"
    try:
        given_parameters = inspect.signature(given).parameters.values()
    except (ValueError, TypeError):
        return None  # as above
    for one in given_parameters:
        if one.kind is one.KEYWORD_ONLY and one.default is one.empty:
            return f"{name} needs the keyword argument {one.name}, which is never passed: give it a default"
    parameters = _positional(given_parameters)
    wanted = NUM_ARGUMENTS[name]
    allowed = {wanted} if name == "execution_parameters_fn" else {wanted, wanted + 1}
    needed = sum(one.default is one.empty and one.kind is not one.VAR_POSITIONAL for one in parameters)
    if any(one.kind is one.VAR_POSITIONAL for one in parameters) and needed <= wanted:
        return None
    if len(parameters) in allowed or (needed <= wanted <= len(parameters)):
        return None
    return f"{name} takes {len(parameters)} arguments; it is called as {SIGNATURES[name]} (and may take context last)"


def _missing_model_fn(module: ModuleType) -> str:
    close = difflib.get_close_matches("model_fn", [n for n in vars(module) if not n.startswith("_")], n=1, cutoff=0.75)
    meant = f" (did you mean {close[0]}?)" if close else ""
    return f"model_fn(model_dir), which loads the model, is missing{meant}"


@dataclass(slots=True)
class Context:
    """The ``context`` argument: the parts of the model server's context that scripts use.

    Args:
        model_dir: The folder of the model.
        headers: The headers of the request.
    """

    model_dir: str
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None
    response_headers: dict[str, str] = field(default_factory=dict)
    request_id: str = ""

    @property
    def system_properties(self) -> dict[str, Any]:
        """The properties of the model server."""
        return {"model_dir": self.model_dir, "gpu_id": None, "batch_size": 1}

    @property
    def manifest(self) -> dict[str, Any]:
        """Empty: there is no model archive."""
        return {}

    @property
    def request_processor(self) -> list[Context]:
        """The object with the properties of the request."""
        return [self]

    def get_request_id(self, idx: int = 0) -> str:
        """The identity of the request."""
        _ = idx
        self.request_id = self.request_id or str(uuid.uuid4())
        return self.request_id

    def get_request_header(self, idx: int, key: str) -> str | None:
        """One header of the request; its name is case-insensitive."""
        _ = idx
        wanted = key.lower()
        return next((value for name, value in self.headers.items() if name.lower() == wanted), None)

    def get_all_request_header(self, idx: int = 0) -> dict[str, str]:
        """All headers of the request."""
        _ = idx
        return dict(self.headers)

    def get_request_properties(self) -> dict[str, str]:
        """All headers of the request."""
        return dict(self.headers)

    def set_response_content_type(self, idx: int, value: str) -> None:
        """Set the content type of the answer."""
        self.set_response_header(idx, "Content-Type", value)

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        """Set a header of the answer."""
        _ = idx
        self.response_headers[key.lower()] = value

    def set_response_status(self, code: int = 200, phrase: str = "", idx: int = 0) -> None:
        """Set the status of the answer."""
        _ = phrase, idx
        self.status = code

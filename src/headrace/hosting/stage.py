"""What an endpoint is to run, as plain values: the server, its workers and the registry all read the same."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headrace import _registry
from headrace.containers.serving.loading import variables
from headrace.contracts.serving import AnswersMany, Handler, Request, Response

__all__ = ["Stage", "check_stages", "load_handler", "names_of"]

HOSTNAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
MOST_CONTAINERS = 15
MOST_VARIABLES, MOST_VARIABLE_BYTES, MOST_ENVIRONMENT_BYTES = 100, 1024, 32 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One container of an endpoint: how a worker gets hold of its handler.

    Raises:
        ValueError: A name or an environment that SageMaker would refuse.
    """

    factory: str
    """``"module:name"`` of a class or function. What it returns is the handler, or has a method ``handler(model_dir)`` that
    returns it."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Its keyword arguments: values that JSON can hold."""
    model_dir: str | None = None
    """Folder of the model, or its ``model.tar.gz``, which is unpacked when the endpoint starts."""
    name: str | None = None
    """Its hostname in a pipeline; ``container-1``, ``container-2``, ... by default."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Its environment variables, on top of those of the server."""
    isolated: bool = False
    """Whether it runs in a process of its own."""
    interpreter: str | None = None
    """Python to run it with, in a process of its own. That Python must be able to load Headrace."""
    path: tuple[str, ...] = ()
    """Folders to look for ``factory`` in, besides those of Python."""

    def __post_init__(self) -> None:
        module, _, name = self.factory.partition(":")
        if not module or not name:
            raise ValueError(f'factory must be "module:name", got {self.factory!r}')
        if self.name is not None and not HOSTNAME.fullmatch(self.name):
            raise ValueError(
                f"the name of a container is up to 63 letters, digits and inner hyphens, got {self.name!r}"
            )
        if self.model_dir is not None:
            object.__setattr__(self, "model_dir", str(Path(self.model_dir).absolute()))
        object.__setattr__(self, "path", tuple(str(Path(folder).absolute()) for folder in self.path))
        _check_environment(self.environment)

    @property
    def alone(self) -> bool:
        """Whether it has a process of its own."""
        return self.isolated or self.interpreter is not None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Stage:
        """From what :meth:`to_json` gave."""
        return cls(**{**values, "path": tuple(values.get("path", ()))})


def names_of(stages: Sequence[Stage]) -> list[str]:
    """What the containers are called."""
    return [stage.name or f"container-{number}" for number, stage in enumerate(stages, 1)]


def check_stages(stages: Sequence[Stage]) -> None:
    """Whether these containers can make an endpoint.

    Raises:
        ValueError: None or more than 15, some with names and some without, two of one name, too much environment.
    """
    if not 1 <= len(stages) <= MOST_CONTAINERS:
        raise ValueError(f"an endpoint has 1 to {MOST_CONTAINERS} containers, got {len(stages)}")
    if len({stage.name is None for stage in stages}) > 1:
        raise ValueError("either all containers of a pipeline have a name or none has")
    if len(set(names_of(stages))) < len(stages):
        raise ValueError(f"two containers have one name: {', '.join(names_of(stages))}")
    size = sum(len(name) + len(value) for stage in stages for name, value in stage.environment.items())
    if size > MOST_ENVIRONMENT_BYTES:
        raise ValueError(f"the environments together may take {MOST_ENVIRONMENT_BYTES} bytes, got {size}")


def load_handler(stage: Stage) -> Handler:
    """Load the model of a stage, in this process, with its environment.

    Raises:
        TypeError: What the factory gave does not answer requests.
        Exception: Whatever the container raises while it loads.
    """
    with _environment(stage.environment):
        for folder in reversed(stage.path):
            if folder not in sys.path:
                sys.path.insert(0, folder)
        made = _registry.load(stage.factory)(**stage.arguments)
        if hasattr(made, "handler"):
            made = made.handler(None if stage.model_dir is None else Path(stage.model_dir))
    if not callable(made):
        raise TypeError(f"{stage.factory} gave a {type(made).__name__}, which does not answer requests")
    if not stage.environment:
        return made  # type: ignore[no-any-return]
    kind = _BatchingInEnvironment if isinstance(made, AnswersMany) else _InEnvironment
    return kind(made, stage.environment)


class _InEnvironment:
    """A handler that is called with its own environment variables, although it shares the process with others."""

    def __init__(self, handler: Handler, environment: Mapping[str, str]) -> None:
        self._handler = handler
        self._environment = environment
        self.execution_parameters = getattr(handler, "execution_parameters", None)

    def __call__(self, request: Request, /) -> Response:
        with _environment(self._environment):
            return self._handler(request)


class _BatchingInEnvironment(_InEnvironment):
    def answer_many(self, requests: Sequence[Request], /) -> Sequence[Response | Exception]:
        assert isinstance(self._handler, AnswersMany)
        with _environment(self._environment):
            return self._handler.answer_many(requests)


def _environment(given: Mapping[str, str]) -> AbstractContextManager[None]:
    """The process's environment with these variables; one container at a time has its own."""
    return variables(given) if given else nullcontext()


def _check_environment(environment: Mapping[str, str]) -> None:
    if len(environment) > MOST_VARIABLES:
        raise ValueError(f"a container has at most {MOST_VARIABLES} environment variables, got {len(environment)}")
    for name, value in environment.items():
        if not name or "=" in name or max(len(name), len(value)) > MOST_VARIABLE_BYTES:
            raise ValueError(
                f"a name (without =) and a value of an environment variable have 1 to {MOST_VARIABLE_BYTES} characters: {name}"
            )

"""A stage: the description of one container of an endpoint, as plain values. Stages can be made from trained models."""

from __future__ import annotations

import os
import pkgutil
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.containers.code import set_variables as variables
from headrace.contracts.serving import AnswersMany, Handler, Request, Response
from headrace.errors import CorruptFile, NoFiles, UnsupportedData, Where
from headrace.io.archive.unpack import archive_names
from headrace.io.paths import list_files_below

__all__ = [
    "LINEAR_LEARNER",
    "SCRIPT",
    "Stage",
    "check_stages",
    "container_names",
    "linear_learner_stage",
    "load_handler",
    "recognise",
    "script_stage",
]


HOSTNAME = re.compile(r"(?!.{64})[a-zA-Z0-9](-*[a-zA-Z0-9])*")
MOST_CONTAINERS = 15
MOST_VARIABLES, MOST_VARIABLE_BYTES, MOST_ENVIRONMENT_BYTES = 100, 1024, 32 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One container of an endpoint: how a worker loads its handler.

    Raises:
        ValueError: A name or an environment that SageMaker refuses, or an empty path of a model.
    """

    factory: str
    """``"module:name"`` of a class or function. It returns the handler, or an object with a method ``handler(model_dir)`` that
    returns the handler."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Its keyword arguments, as JSON values."""
    model_dir: str | None = None
    """The folder of the model, or its ``model.tar.gz``, which is unpacked when the endpoint starts."""
    name: str | None = None
    """Its hostname in a pipeline; ``container-1``, ``container-2``, ... by default."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Its environment variables, added to those of the server."""
    isolated: bool = False
    """Whether it runs in its own process."""
    interpreter: str | None = None
    """A Python interpreter to run it with, in its own process. That interpreter must be able to load Headrace."""
    path: tuple[str, ...] = ()
    """Additional folders to import ``factory`` from."""

    def __post_init__(self) -> None:
        module, _, name = self.factory.partition(":")
        if not module or not name:
            raise ValueError(f'factory must be "module:name", got {self.factory!r}')
        if self.name is not None and not HOSTNAME.fullmatch(self.name):
            raise ValueError(
                f"the name of a container is up to 63 letters, digits and inner hyphens, got {self.name!r}"
            )
        if self.model_dir is not None:
            object.__setattr__(self, "model_dir", str(_model_path(self.model_dir)))
        object.__setattr__(self, "path", tuple(str(Path(folder).absolute()) for folder in self.path))
        _check_environment(self.environment)

    @property
    def needs_process(self) -> bool:
        """Whether it runs in its own process."""
        return self.isolated or self.interpreter is not None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Stage:
        """The inverse of :meth:`to_json`."""
        return cls(**{**values, "path": tuple(values.get("path", ()))})


def container_names(stages: Sequence[Stage]) -> list[str]:
    """The names of the containers."""
    return [stage.name or f"container-{number}" for number, stage in enumerate(stages, 1)]


def check_stages(stages: Sequence[Stage]) -> None:
    """Check that these containers can make an endpoint.

    Raises:
        ValueError: None or more than 15, some with names and some without, two with one name, too many bytes of environment.
    """
    if not 1 <= len(stages) <= MOST_CONTAINERS:
        raise ValueError(f"an endpoint has 1 to {MOST_CONTAINERS} containers, got {len(stages)}")
    if len({stage.name is None for stage in stages}) > 1:
        raise ValueError("either all containers of a pipeline have a name, or none")
    if len(set(container_names(stages))) < len(stages):
        raise ValueError(f"two containers have the same name: {', '.join(container_names(stages))}")
    size = sum(len(name) + len(value) for stage in stages for name, value in stage.environment.items())
    if size > MOST_ENVIRONMENT_BYTES:
        raise ValueError(f"the environments together may take {MOST_ENVIRONMENT_BYTES} bytes, got {size}")


def load_handler(stage: Stage) -> Handler:
    """Load the model of a stage, in this process, with its environment.

    Raises:
        TypeError: The factory did not return a handler.
        Exception: Raised by the container while it loads.
    """
    with _environment(stage.environment):
        # Python has read its own PYTHONPATH long since.
        given = stage.environment.get("PYTHONPATH", "").split(os.pathsep)
        for folder in reversed([*stage.path, *filter(None, given)]):
            if folder not in sys.path:
                sys.path.insert(0, folder)
        made = pkgutil.resolve_name(stage.factory)(**stage.arguments)
        if hasattr(made, "handler"):
            made = made.handler(None if stage.model_dir is None else Path(stage.model_dir))
    if not callable(made):
        raise TypeError(f"{stage.factory} returned {type(made).__name__}, which cannot answer requests")
    if not stage.environment:
        return made  # type: ignore[no-any-return]
    kind = _BatchingInEnvironment if isinstance(made, AnswersMany) else _InEnvironment
    return kind(made, stage.environment)


class _InEnvironment:
    """A handler that shares its process with others, and is called with its own environment variables."""

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
    """Set these variables in the environment of the process, for one container at a time."""
    return variables(given) if given else nullcontext()


def _check_environment(environment: Mapping[str, str]) -> None:
    if len(environment) > MOST_VARIABLES:
        raise ValueError(f"a container has at most {MOST_VARIABLES} environment variables, got {len(environment)}")
    for name, value in environment.items():
        if not name or "=" in name or max(len(name), len(value)) > MOST_VARIABLE_BYTES:
            raise ValueError(
                f"a name (without =) and a value of an environment variable have 1 to {MOST_VARIABLE_BYTES} characters: {name}"
            )


SCRIPT = "headrace.containers.script:ScriptContainer"
LINEAR_LEARNER = "headrace.containers.linear_learner.container:LinearLearnerContainer"
ALGORITHM_FILE = "model_algo-1"
PATHS = ("entry_point", "source_dir")


def script_stage(
    model: str | os.PathLike[str],
    *,
    name: str | None = None,
    environment: Mapping[str, str] | None = None,
    isolated: bool = False,
    interpreter: str | None = None,
    **container: Any,
) -> Stage:
    """A stage with a user's script.

    Args:
        model: The folder of the model, or its ``model.tar.gz``.
        name: Its hostname in a pipeline.
        environment: Its environment variables.
        isolated: Whether it runs in its own process.
        interpreter: A Python interpreter to run it with, in its own process.
        container: Arguments of :class:`headrace.containers.script.ScriptContainer`: ``entry_point``, ``source_dir``,
            ``dependencies``, ``dialect``, ``rows_independent``. The default ``entry_point`` is the script in the model's ``code/``.
    """
    variables = dict(environment or {})
    # Worker processes may have another working folder, so make paths absolute.
    if container.get("source_dir") is not None:
        container["source_dir"] = _absolute(container["source_dir"])
    elif container.get("entry_point") is not None:
        container["entry_point"] = _absolute(container["entry_point"])
    given = {key: os.fspath(value) if key in PATHS and value is not None else value for key, value in container.items()}
    given["dependencies"] = [_absolute(path) for path in container.get("dependencies", ())]
    return Stage(
        factory=SCRIPT,
        arguments={**given, "environment": variables},
        model_dir=os.fspath(model),
        name=name,
        environment=variables,
        isolated=isolated,
        interpreter=interpreter,
    )


def linear_learner_stage(
    model: str | os.PathLike[str],
    *,
    name: str | None = None,
    environment: Mapping[str, str] | None = None,
    isolated: bool = False,
) -> Stage:
    """A stage with a model of Linear Learner.

    Args:
        model: The folder of the model, or its ``model.tar.gz``.
        name: Its hostname in a pipeline.
        environment: Its environment variables.
        isolated: Whether it runs in its own process.
    """
    variables = dict(environment or {})
    return Stage(
        factory=LINEAR_LEARNER,
        arguments={"environment": variables},
        model_dir=os.fspath(model),
        name=name,
        environment=variables,
        isolated=isolated,
    )


def recognise(model: str | os.PathLike[str], *, entry_point: str | os.PathLike[str] | None = None) -> Stage:
    """The stage for a model, by its content: a script in ``code/``, or a model of Linear Learner.

    Args:
        model: A folder, or a ``model.tar.gz``.
        entry_point: The script that serves it, if the model does not contain it.

    Raises:
        NoFiles: The model does not exist.
        CorruptFile: It is neither a folder nor an intact archive.
        UnsupportedData: It is neither of these, and no script is given.
    """
    names = _names(_model_path(model))
    if entry_point is not None:
        return script_stage(model, entry_point=entry_point)
    if ALGORITHM_FILE in names:
        return linear_learner_stage(model)
    scripts = [name for name in names if name.startswith("code/") and name.endswith(".py")]
    if "code/inference.py" in scripts:
        return script_stage(model, entry_point=None)
    if len(scripts) == 1:
        stage = script_stage(model, environment={"SAGEMAKER_PROGRAM": scripts[0].removeprefix("code/")})
        return replace(stage, environment={})
    raise UnsupportedData(
        Where(path=os.fspath(model)),
        expected=f"code/inference.py, one script in code/, or {ALGORITHM_FILE}",
        found=", ".join(names[:5]) or "nothing",
        hint="Pass the script that serves it as entry_point.",
    )


def _names(model: Path) -> list[str]:
    """The paths of the files in a model."""
    if model.is_dir():
        return sorted(path.relative_to(model).as_posix() for path in list_files_below(model))
    if not model.exists():
        raise NoFiles(Where(path=str(model)), expected="a folder or a model.tar.gz", found="nothing")
    try:
        return archive_names(model, what="a model.tar.gz")
    except UnsupportedData as error:
        raise CorruptFile(error.where, expected=error.expected, found=error.found, hint=error.hint) from error


def _absolute(path: str | os.PathLike[str]) -> str:
    return str(Path(path).expanduser().absolute())


def _model_path(model: str | os.PathLike[str]) -> Path:
    if not os.fspath(model):
        raise ValueError("expected the path of a model, found an empty text")
    return Path(model).expanduser().absolute()

"""The container for user scripts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from headrace._arguments import check_choice
from headrace.containers.code import Code, ScriptModules, find_code, load_module
from headrace.containers.code import set_variables as variables
from headrace.containers.code import stage_temporarily as staged
from headrace.containers.serving.batching import BatchingScriptHandler
from headrace.containers.serving.dialects import DIALECTS, DialectName
from headrace.containers.serving.functions import Context, Function, Functions, collect
from headrace.containers.serving.handler import ScriptHandler
from headrace.containers.toolkit import params, shim
from headrace.containers.training.interpreter import prepare
from headrace.containers.training.script_job import installation_of, train_with_script
from headrace.contracts.job import TrainingJob
from headrace.errors import JobFailed

__all__ = ["ScriptContainer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptContainer:
    """Trains and answers with a user's script, as SageMaker's framework containers do.

    Args:
        entry_point: The path of the script, relative to ``source_dir`` if that is given. ``None``: the script in the model's ``code/``.
        source_dir: Folder (or ``.tar.gz`` of one) with the script and what it imports.
        dependencies: Additional files and folders to put beside the script.
        environment: Variables of this container.
        name: For logs and errors; by default the script's name.
        python: The interpreter of the script: a path, or a name such as ``"python3.12"``. ``None``: the running one. For code with
            a ``requirements.txt`` or ``setup.py``, a virtual environment is made and kept.
        dialect: ``"fixed"`` corrects common problems with SageMaker: one CSV row is ``(1, n)``, parameters of content types are allowed,
            errors have the matching HTTP status. ``"sagemaker_containers"`` and ``"sagemaker_inference"`` behave exactly like those
            packages.
        rows_independent: Whether the answer to a row does not depend on other rows, so that concurrent requests may be processed
            as one batch. ``None``: only if the script uses the default prediction, ``model.predict``, and none of its functions
            takes ``context``.

    Raises:
        ValueError: An unknown dialect.

    >>> ScriptContainer(entry_point="train.py").name
    'train'
    """

    entry_point: str | os.PathLike[str] | None = None
    source_dir: str | os.PathLike[str] | None = None
    dependencies: Sequence[str | os.PathLike[str]] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    python: str | os.PathLike[str] | None = None
    dialect: DialectName = "fixed"
    rows_independent: bool | None = None

    def __post_init__(self) -> None:
        check_choice(self.dialect, "dialect", tuple(DIALECTS))
        if not self.name:
            program = self.entry_point or self.environment.get(params.USER_PROGRAM_ENV) or "script"
            object.__setattr__(self, "name", Path(program).stem)

    def train(self, job: TrainingJob, /) -> None:
        """Run the script with the job's tree, variables and arguments.

        Raises:
            JobFailed: It failed, or cannot run.
        """
        try:
            code = find_code(self.entry_point, self.source_dir, None, self.environment)
        except JobFailed as error:
            (job.output_dir / "failure").write_text(f"Framework Error:\n{error}", encoding="utf-8")
            raise
        train_with_script(
            job,
            code,
            dependencies=self.dependencies,
            python=self.python,
            environment=self.environment,
        )

    def code(self, model_dir: str | os.PathLike[str] | None = None) -> Code:
        """The location of the script.

        Args:
            model_dir: The folder of the model, for scripts in it.

        Raises:
            JobFailed: There is no script.
        """
        folder = None if model_dir is None else Path(model_dir).absolute()
        return find_code(self.entry_point, self.source_dir, folder, self.environment)

    def interpreter(
        self, model_dir: str | os.PathLike[str] | None = None, *, log: Callable[[str], None] = print
    ) -> str | None:
        """The interpreter that the script needs, or ``None`` for the running one.

        For code with a ``requirements.txt``, a virtual environment is made once. It is for the process that hosts the script;
        :meth:`handler` loads the script into the calling process.

        Args:
            model_dir: The folder of the model, for scripts in it.
            log: Called with the lines that pip writes.

        Raises:
            JobFailed: The interpreter does not exist, or the installation failed.
        """
        with staged(self.code(model_dir), self.dependencies) as prepared:
            installation = installation_of(prepared)
            if self.python is None and not installation.is_needed:
                return None
            return prepare(self.python, installation, log=log)

    def handler(self, model_dir: str | os.PathLike[str], /) -> ScriptHandler:
        """Load the script and its model.

        All functions are checked first; then ``pre_model_fn``, ``model_fn`` and ``model_warmup_fn`` run.

        Raises:
            JobFailed: The script cannot be imported, has invalid functions, or one of these failed.
        """
        folder = Path(model_dir).absolute()
        code = self.code(folder)
        with ExitStack() as stack:
            code = stack.enter_context(staged(code, self.dependencies))
            modules = ScriptModules(code.folder)
            stack.callback(modules.close)
            with variables(self._variables(folder, code)), shim.inside(), modules:
                functions = collect(load_module(code, modules))
                model = _load_model(functions, str(folder))
            return self._handler_class(functions)(
                functions,
                model,
                model_dir=str(folder),
                dialect=DIALECTS[self.dialect],
                environment=self.environment,
                name=self.name,
                modules=modules,
                resources=stack.pop_all(),
            )

    def _handler_class(self, functions: Functions) -> Callable[..., ScriptHandler]:
        predict_fn = functions.predict_fn
        independent = self.rows_independent
        if independent is None:
            used = (functions.input_fn, functions.output_fn)
            has_context = any(function is not None and function.wants_context for function in used)
            independent = predict_fn is None and not has_context
        # A context belongs to one request.
        is_for_one = functions.transform_fn is not None or (predict_fn is not None and predict_fn.wants_context)
        if not independent or is_for_one:
            return ScriptHandler
        return partial(BatchingScriptHandler, is_declared=self.rows_independent is True)

    def _variables(self, model_dir: Path, code: Code) -> dict[str, str]:
        own = {
            "SM_MODEL_DIR": str(model_dir),
            params.USER_PROGRAM_ENV: code.program,
            params.SUBMIT_DIR_ENV: str(code.folder),
        }
        if model_dir.name == "model":
            own[params.BASE_PATH_ENV] = str(model_dir.parent)
        return {**own, **self.environment}


def _load_model(functions: Functions, model_dir: str) -> Any:
    context = Context(model_dir)
    if functions.pre_model_fn is not None:
        _call(functions.pre_model_fn, context, model_dir)
    model = _call(functions.model_fn, context, model_dir)
    if functions.model_warmup_fn is not None:
        _call(functions.model_warmup_fn, context, model_dir, model)
    return model


def _call(function: Function, context: Context, *args: Any) -> Any:
    try:
        return function(context, *args)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        hint = ""
        if "__main__" in str(error):
            hint = " (classes defined in the script itself cannot be unpickled here: move them to a module beside it)"
        raise JobFailed(f"{function.name} failed with {type(error).__name__}: {error}{hint}") from error

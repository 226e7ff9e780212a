"""The names that scripts import, where they are inside a job or an endpoint.

``with shim.inside():`` makes ``import sagemaker_containers`` and the like find the modules of this folder, in all threads,
until the last of those who are inside leaves. Job processes have it from beginning to end: see ``site/sitecustomize.py``.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

__all__ = ["MODULES", "PACKAGES", "inside", "install"]

FRAMEWORK = "sagemaker_containers.beta.framework"
JOBLIB = "sklearn.externals.joblib"

PACKAGES = {
    "sagemaker_containers": ("environment", "training_env"),
    "sagemaker_containers.beta": None,
    FRAMEWORK: ("environment", "training_env"),
    "sagemaker_inference": None,
    "sagemaker_training": None,
}
"""Packages, and the function that they have besides their modules: module of this folder and name."""

MODULES = {
    f"{FRAMEWORK}.content_types": ".content_types",
    f"{FRAMEWORK}.encoders": ".encoders",
    f"{FRAMEWORK}.env": ".environment",
    f"{FRAMEWORK}.errors": ".errors",
    f"{FRAMEWORK}.functions": ".functions",
    f"{FRAMEWORK}.logging": ".logs",
    f"{FRAMEWORK}.mapping": ".mapping",
    f"{FRAMEWORK}.modules": ".modules",
    f"{FRAMEWORK}.params": ".params",
    f"{FRAMEWORK}.transformer": ".transformer",
    f"{FRAMEWORK}.worker": ".worker",
    "sagemaker_inference.content_types": ".content_types",
    "sagemaker_inference.decoder": ".inference_decoder",
    "sagemaker_inference.default_inference_handler": ".transformer",
    "sagemaker_inference.encoder": ".inference_encoder",
    "sagemaker_inference.environment": ".serving_environment",
    "sagemaker_inference.errors": ".errors",
    "sagemaker_inference.logging": ".logs",
    "sagemaker_inference.utils": ".inference_utils",
    "sagemaker_training.content_types": ".content_types",
    "sagemaker_training.encoders": ".encoders",
    "sagemaker_training.environment": ".environment",
    "sagemaker_training.errors": ".errors",
    "sagemaker_training.functions": ".functions",
    "sagemaker_training.logging_config": ".logs",
    "sagemaker_training.mapping": ".mapping",
    "sagemaker_training.modules": ".modules",
    "sagemaker_training.params": ".params",
    JOBLIB: "joblib",
}
"""Names that scripts import, and the module that they get: one of this folder, or of another package."""

STAND_INS = {"flask": ".web", "werkzeug.wrappers": ".web"}
"""Packages in SageMaker's images whose response class scripts use; found only if they are not installed."""
STAND_IN_PACKAGES = ("werkzeug",)

NAMES = (*PACKAGES, *MODULES)
ROOTS = {"sagemaker_containers", "sagemaker_inference", "sagemaker_training"}


class _Alias(importlib.abc.Loader):
    """Loads a module that exists already."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._own_spec: Any = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        _ = spec
        module = importlib.import_module(self._target, __package__)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec  # importing under another name has overwritten it


class _Package(importlib.abc.Loader):
    """Makes a package that loads its modules when they are asked for."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        _ = spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__

        def get(attribute: str) -> Any:
            extra = PACKAGES.get(name)
            if extra is not None and extra[1] == attribute:
                return getattr(importlib.import_module(f".{extra[0]}", __package__), attribute)
            if any(f"{name}.{attribute}" in known for known in (MODULES, PACKAGES, STAND_INS)):
                return importlib.import_module(f"{name}.{attribute}")
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")

        module.__getattr__ = get  # type: ignore[method-assign]


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the names above."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        _ = path, target
        if fullname in PACKAGES:
            return importlib.util.spec_from_loader(fullname, _Package(), is_package=True)
        if fullname in MODULES:
            return importlib.util.spec_from_loader(fullname, _Alias(MODULES[fullname]))
        return None


class _StandInFinder(importlib.abc.MetaPathFinder):
    """Finds replacements for packages that are not installed. It is the last finder."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        _ = path, target
        if fullname in STAND_IN_PACKAGES:
            _standing_in.add(fullname)
            return importlib.util.spec_from_loader(fullname, _Package(), is_package=True)
        if fullname in STAND_INS:
            _standing_in.add(fullname)
            return importlib.util.spec_from_loader(fullname, _Alias(STAND_INS[fullname]))
        return None


_FINDER = _Finder()
_LAST_FINDER = _StandInFinder()
_LOCK = threading.RLock()
_ours: dict[str, ModuleType] = {}
_others: dict[str, ModuleType] = {}
_standing_in: set[str] = set()
_depth = 0


def install() -> None:
    """Make the names importable from now on."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
        sys.meta_path.append(_LAST_FINDER)


class _Inside:
    """Counts nested uses. A class, because every request enters it, and a generator takes several times as long."""

    __slots__ = ()

    def __enter__(self) -> None:
        global _depth  # noqa: PLW0603
        with _LOCK:
            _depth += 1
            if _depth == 1:
                _enter()

    def __exit__(self, *_: object) -> None:
        global _depth  # noqa: PLW0603
        with _LOCK:
            _depth -= 1
            if _depth == 0:
                _leave()


_INSIDE = _Inside()


def inside() -> AbstractContextManager[None]:
    """Make the names importable within the block."""
    return _INSIDE


def _enter() -> None:
    # The process may have imported the real packages. Searching all modules is slow, so do it only then
    # (ROOTS.isdisjoint(sys.modules) would also search them all).
    if not sys.modules.keys().isdisjoint(ROOTS):
        outside = [name for name in sys.modules if name.partition(".")[0] in ROOTS]
        _others.update({name: sys.modules.pop(name) for name in outside})
    sys.modules.update(_ours)
    if JOBLIB in _ours and (externals := sys.modules.get("sklearn.externals")) is not None:
        vars(externals)["joblib"] = _ours[JOBLIB]  # what importing it has done the first time
    install()


def _leave() -> None:
    sys.meta_path.remove(_FINDER)
    sys.meta_path.remove(_LAST_FINDER)
    _ours.update({name: sys.modules.pop(name) for name in NAMES if name in sys.modules})
    while _standing_in:
        sys.modules.pop(_standing_in.pop(), None)
    if _others:
        sys.modules.update(_others)
        _others.clear()
    externals = sys.modules.get("sklearn.externals")
    if externals is not None and JOBLIB not in sys.modules:
        vars(externals).pop("joblib", None)

"""Calls functions of scripts, which may take additional arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["call_with_context", "error_wrapper", "getargspec", "matching_args", "takes_context"]


def getargspec(function: Callable[..., Any]) -> inspect.FullArgSpec:
    """The arguments of a function."""
    return inspect.getfullargspec(function)


def matching_args(function: Callable[..., Any], values: dict[str, Any]) -> dict[str, Any]:
    """The entries of ``values`` that a function accepts; all if it has ``**kwargs``."""
    spec = getargspec(function)
    return dict(values) if spec.varkw else {name: values[name] for name in spec.args if name in values}


def error_wrapper(function: Callable[..., Any], error_class: type[Exception]) -> Callable[..., Any]:
    """Wrap a function so that it raises exceptions of one class."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise error_class(error) from error

    return wrapped


def takes_context(function: Callable[..., Any], count: int) -> bool:
    """Whether a function takes ``count`` arguments and then ``context``.

    Raises:
        TypeError: It takes another number.
    """
    found = len(inspect.signature(function).parameters)
    if found not in (count, count + 1):
        raise TypeError(f"{getattr(function, '__name__', function)} takes {found} arguments but {count} were given.")
    return found == count + 1


def call_with_context(function: Callable[..., Any], context: Any, *args: Any) -> Any:
    """Call a function, with ``context`` if it takes one more argument."""
    return function(*args, context) if takes_context(function, len(args)) else function(*args)

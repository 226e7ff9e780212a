"""Hyperparameters as texts, which is all that a training job takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["as_json", "as_text"]


def as_json(values: Mapping[str, Any]) -> dict[str, str]:
    """As the SDK's framework estimators do it, for scripts: each value as JSON.

    >>> as_json({"n": 3, "name": "abc", "on": True, "no": None})
    {'n': '3', 'name': '"abc"', 'on': 'true', 'no': 'null'}

    Raises:
        TypeError: A value that JSON does not have; the message names the hyperparameter.
    """
    return {str(name): _json(name, value) for name, value in values.items()}


def _json(name: str, value: Any) -> str:
    try:
        return json.dumps(value)
    except TypeError as error:
        raise TypeError(
            f"hyperparameter {name!r}: {error}; give a number, a text, a list or a dict of Python"
        ) from None


def as_text(values: Mapping[str, Any]) -> dict[str, str]:
    """As the SDK's generic estimator does it, for built-in algorithms: ``str`` of each value.

    >>> as_text({"n": 3, "on": True})
    {'n': '3', 'on': 'True'}
    """
    return {str(name): str(value) for name, value in values.items()}

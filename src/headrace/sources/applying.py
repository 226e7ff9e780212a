"""A user's function, applied to examples: what it raises names the example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.contracts.values import Example
from headrace.errors import TransformError
from headrace.sources.base import BaseSource

__all__ = ["Applied"]


class Applied:
    """Calls a function.

    Args:
        function: Takes an example.
        parent: Where the examples come from.
    """

    __slots__ = ("function", "name", "parent")

    def __init__(self, function: Callable[[Example], Any], parent: BaseSource) -> None:
        self.function = function
        self.parent = parent
        self.name: str = getattr(function, "__qualname__", type(function).__name__)

    def __call__(self, example: Example, index: int) -> Any:
        """What the function gives for the example at ``index``.

        Raises:
            TransformError: It fails; the cause is chained.
        """
        try:
            return self.function(example)
        except Exception as error:
            raise TransformError(f"{self.name} on example {index}", self.parent.where(index), error) from error

"""What functions that take ``context`` get: the parts of the model server's that scripts use."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Context"]


@dataclass(slots=True)
class Context:
    """About one request and its answer.

    Args:
        model_dir: Where the model is.
        headers: The request's headers.
    """

    model_dir: str
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None
    response_headers: dict[str, str] = field(default_factory=dict)
    request_id: str = ""

    @property
    def system_properties(self) -> dict[str, Any]:
        """As the model server has them."""
        return {"model_dir": self.model_dir, "gpu_id": None, "batch_size": 1}

    @property
    def manifest(self) -> dict[str, Any]:
        """Nothing is known of a model archive."""
        return {}

    @property
    def request_processor(self) -> list[Context]:
        """Asked for properties of the request."""
        return [self]

    def get_request_id(self, idx: int = 0) -> str:
        """A name for the request."""
        _ = idx
        self.request_id = self.request_id or str(uuid.uuid4())
        return self.request_id

    def get_request_header(self, idx: int, key: str) -> str | None:
        """One header of the request, however its name is written."""
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
        """The content type of the answer."""
        self.set_response_header(idx, "Content-Type", value)

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        """A header of the answer."""
        _ = idx
        self.response_headers[key.lower()] = value

    def set_response_status(self, code: int = 200, phrase: str = "", idx: int = 0) -> None:
        """The status of the answer."""
        _ = phrase, idx
        self.status = code

"""The second stage as a handler of Headrace: JSON instances in, JSON predictions out, several requests at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from headrace.contracts.serving import Request, Response
from headrace.errors import RequestError


class Linear:
    """Answers ``{"instances": [{"features": [...]}]}`` with ``{"predictions": [{"score": ...}]}``."""

    def __init__(self, folder):
        found = json.loads((Path(folder) / "weights.json").read_text())
        self._coefficients, self._intercept = np.array(found["coefficients"]), found["intercept"]

    def __call__(self, request: Request, /) -> Response:
        (answer,) = self.answer_many([request])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answer_many(self, requests, /):
        rows = [self._rows(request) for request in requests]
        sizes = [found if isinstance(found, Exception) else len(found) for found in rows]
        right = [found for found in rows if not isinstance(found, Exception)]
        scores = iter((np.concatenate(right) @ self._coefficients + self._intercept).tolist() if right else ())
        return [size if isinstance(size, Exception) else self._response(scores, size) for size in sizes]

    def _rows(self, request):
        if not request.content_type.startswith("application/json"):
            return RequestError(415, f"{request.content_type} is not application/json")
        try:
            found = np.array([instance["features"] for instance in json.loads(request.body)["instances"]], dtype=float)
            if found.shape[1:] != self._coefficients.shape:
                raise ValueError("another number of features")
        except (ValueError, KeyError, TypeError) as error:
            return RequestError(400, f"unable to evaluate payload provided: {error}")
        return found

    @staticmethod
    def _response(scores, size):
        body = json.dumps({"predictions": [{"score": next(scores)} for _ in range(size)]})
        return Response(body=body.encode(), content_type="application/json")

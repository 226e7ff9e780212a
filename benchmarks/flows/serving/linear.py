"""The second stage as a handler of Penstock: JSON instances in, JSON predictions out, several requests at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from penstock.contracts.serving import Request, Response
from penstock.errors import RequestError


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
        rows, sizes = [], []
        for request in requests:
            found = self._rows(request)
            sizes.append(found if isinstance(found, Exception) else len(found))
            rows.extend([] if isinstance(found, Exception) else found)
        scores = iter((np.array(rows) @ self._coefficients + self._intercept).tolist() if rows else ())
        return [size if isinstance(size, Exception) else self._response(scores, size) for size in sizes]

    def _rows(self, request):
        if not request.content_type.startswith("application/json"):
            return RequestError(415, f"{request.content_type} is not application/json")
        try:
            found = [instance["features"] for instance in json.loads(request.body)["instances"]]
            if np.array(found, dtype=float).shape[1:] != self._coefficients.shape:
                raise ValueError("another number of features")
        except (ValueError, KeyError, TypeError) as error:
            return RequestError(400, f"unable to evaluate payload provided: {error}")
        return found

    @staticmethod
    def _response(scores, size):
        body = json.dumps({"predictions": [{"score": next(scores)} for _ in range(size)]})
        return Response(body=body.encode(), content_type="application/json")

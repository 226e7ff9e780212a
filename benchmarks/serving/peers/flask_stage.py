"""One stage behind gunicorn and gevent, as the scikit-learn container serves it: ``STAGE`` is ``first`` or ``second``."""

import os

from flask import Flask, Response, request

from benchmarks.serving import stages

app = Flask(__name__)
answer = getattr(stages, os.environ["STAGE"])
stages.load()


@app.post("/invocations")
def invocations():
    return Response(answer(request.get_data(as_text=True)), mimetype="application/json")

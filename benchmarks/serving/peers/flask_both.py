"""Both stages in one Flask process: no hop."""

from flask import Flask, Response, request

from benchmarks.serving import stages

app = Flask(__name__)
stages.load()


@app.post("/invocations")
def invocations():
    return Response(stages.chain(request.get_data(as_text=True)), mimetype="application/json")

"""Sends each request through both stages by HTTP, as the host of a serial pipeline does."""

import os

import requests
from flask import Flask, Response, request

app = Flask(__name__)
session = requests.Session()
session.mount("http://", requests.adapters.HTTPAdapter(pool_connections=4, pool_maxsize=64))
FIRST, SECOND = os.environ["FIRST"], os.environ["SECOND"]


@app.post("/invocations")
def invocations():
    first = session.post(FIRST, data=request.get_data(), headers={"Content-Type": "text/csv"})
    if first.status_code != 200:
        return Response(first.content, first.status_code)
    second = session.post(SECOND, data=first.content, headers={"Content-Type": "application/json"})
    return Response(second.content, second.status_code, mimetype="application/json")

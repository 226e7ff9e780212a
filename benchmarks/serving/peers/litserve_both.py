"""Both stages in LitServe with batches of 32. It reads JSON, so the row travels as ``{"row": csv}``."""

import os

import litserve as ls
from starlette.responses import Response

from benchmarks.serving import stages


class Both(ls.LitAPI):
    def setup(self, device):  # noqa: ARG002 - LitServe's
        stages.load()

    def decode_request(self, request):
        return request["row"]

    def batch(self, inputs):
        return inputs

    def predict(self, texts):
        return stages.chain_many(texts)

    def unbatch(self, outputs):
        return outputs

    def encode_response(self, output):
        return Response(output, media_type="application/json")


if __name__ == "__main__":
    api = Both(max_batch_size=32, batch_timeout=0.002, api_path="/invocations")
    server = ls.LitServer(api, accelerator="cpu", workers_per_device=int(os.environ["WORKERS"]))
    server.run(
        host="127.0.0.1",
        port=int(os.environ["PORT"]),
        num_api_servers=1,
        generate_client_file=False,
        log_level="warning",
        access_log=False,
    )

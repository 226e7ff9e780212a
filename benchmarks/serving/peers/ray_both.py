"""Both stages in Ray Serve: two replicas, batches of at most 32."""

import os
import signal
import sys

import ray
from ray import serve
from starlette.responses import Response

from benchmarks.serving import stages


@serve.deployment(num_replicas=2, max_ongoing_requests=64, ray_actor_options={"num_cpus": 1})
class Both:
    def __init__(self):
        stages.load()

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.002)
    async def together(self, texts):
        return stages.chain_many(texts)

    async def __call__(self, request):
        text = (await request.body()).decode()
        return Response(await self.together(text), media_type="application/json")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    variables = {name: os.environ[name] for name in ("PYTHONPATH", "SERVING_MODELS")}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": variables})
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": int(os.environ["PORT"])})
        serve.run(Both.bind(), route_prefix="/invocations")
        signal.pause()
    finally:
        serve.shutdown()
        ray.shutdown()

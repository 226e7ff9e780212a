"""Both stages in BentoML with its adaptive batches of at most 32. Its batches are of lists, so a body is ``{"rows": [csv]}``."""

import bentoml

from benchmarks.serving import stages


@bentoml.service(workers=2, logging={"access": {"enabled": False}})
class Both:
    def __init__(self):
        stages.load()

    @bentoml.api(route="/invocations", batchable=True, max_batch_size=32, max_latency_ms=10000)
    def invocations(self, rows: list[str]) -> list[str]:
        return stages.chain_many(rows)

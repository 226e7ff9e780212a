"""Both stages in Starlette's threads, without batches."""

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.serving import stages

stages.load()


async def invocations(request):
    text = (await request.body()).decode()
    return Response(await run_in_threadpool(stages.chain, text), media_type="application/json")


app = Starlette(routes=[Route("/invocations", invocations, methods=["POST"])])

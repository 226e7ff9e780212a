"""Which requests wait, which channel gets them and when, and which time out: one timer does the work of a timer for each."""

import asyncio
import selectors

import pytest

from headrace.contracts.serving import Request, Response
from headrace.errors import RequestError
from headrace.hosting.metrics import Metrics
from headrace.hosting.settings import Settings
from headrace.hosting.workers.dispatch import Dispatcher

ANSWER = Response(body=b"", content_type="text/plain")


class Held:
    """A channel that works until the test finishes it."""

    def __init__(self, dispatcher, *, many=True):
        self.many, self.dispatcher, self.batches = many, dispatcher, []
        dispatcher.attach(self)

    def start(self, batch):
        self.batches.append(batch)

    def current_container(self):
        return "container-2"

    def finish(self):
        self.dispatcher.resolve(self.batches[-1], [ANSWER] * len(self.batches[-1]))
        self.dispatcher.done(self)

    @property
    def sizes(self):
        return [len(batch) for batch in self.batches]


class OwnClock(asyncio.SelectorEventLoop):
    """A loop that never waits: its clock advances by the time that it would have waited."""

    def __init__(self):
        self.now = 0.0
        selector = selectors.SelectSelector()
        self._poll, selector.select = selector.select, self._select
        super().__init__(selector)

    def time(self):
        return self.now

    def _select(self, timeout=None):
        self.now += timeout or 0
        return self._poll(0)


def dispatcher(**settings):
    return Dispatcher(Settings(**settings), Metrics())


def ask(dispatcher, answers):
    return dispatcher.submit(Request(body=b"", content_type="a/b"), answers.append)


def test_one_alone_goes_at_once_and_those_of_one_turn_together():
    async def run():
        gives, answers = dispatcher(gather_ms=0), []
        channel = Held(gives)
        ask(gives, answers)
        assert channel.sizes == [1]  # not at the end of the turn
        for _ in range(3):
            ask(gives, answers)
        channel.finish()
        await asyncio.sleep(0)
        assert channel.sizes == [1, 3]
        channel.finish()
        for _ in range(2):
            ask(gives, answers)
        assert channel.sizes == [1, 3]  # the previous ones were batched: these may be, too
        await asyncio.sleep(0)
        assert channel.sizes == [1, 3, 2]
        channel.finish()
        assert answers == [ANSWER] * 6
        assert (gives.in_flight, gives.queued) == (0, 0)

    asyncio.run(run())


@pytest.mark.parametrize("taken", [False, True])
def test_each_has_as_much_time_as_it_would_have_alone(taken):
    async def run():
        loop = asyncio.get_running_loop()
        gives, answers = dispatcher(timeout_s=0.2), []
        channel = Held(gives, many=False) if taken else None
        for place in range(4):
            begun = loop.time()

            def note(answer, place=place, begun=begun):
                answers.append((place, answer, loop.time() - begun))

            pending = gives.submit(Request(body=b"", content_type="a/b"), note)
            if place == 1:
                pending.cancel()
            await asyncio.sleep(0.06)
        if taken:
            channel.finish()  # too late for expired requests only
        await asyncio.sleep(0.2)
        assert not gives.in_flight
        found = {place: (answer, seconds) for place, answer, seconds in answers}
        assert len(answers) == len(found) == 4
        assert found.pop(1)[0].status == 499
        for answer, seconds in found.values():
            assert answer.status == 504
            assert seconds == pytest.approx(0.2)
        # The channel's requests, and the one still waiting.
        assert sorted(str(answer.container) for answer, _ in found.values()) == (
            ["None", "container-2", "container-2"] if taken else ["None"] * 3
        )
        assert gives.queued == 0

    with asyncio.Runner(loop_factory=OwnClock) as runner:
        runner.run(run())


def test_too_many_are_refused_until_some_are_answered():
    async def run():
        gives, answers = dispatcher(concurrency=2), []
        first, _ = ask(gives, answers), ask(gives, answers)
        with pytest.raises(RequestError, match="2 requests are in flight already"):
            ask(gives, answers)
        first.cancel()
        ask(gives, answers)
        assert gives.in_flight == 2
        gives.refuse(RequestError(503, "the endpoint is stopping"))
        assert [answer.status for answer in answers] == [499, 503, 503]
        assert gives.in_flight == 0

    asyncio.run(run())


def test_a_channel_that_loses_answers_fails_its_batch():
    async def run():
        gives, answers = dispatcher(), []
        channel = Held(gives)
        ask(gives, answers)
        gives.resolve(channel.batches[0], [])
        assert [(answer.status, answer.reason) for answer in answers] == [
            (500, "the worker returned 0 answers to 1 requests")
        ]

    asyncio.run(run())


def test_large_requests_make_small_batches_and_cancelled_ones_make_none():
    async def run():
        gives, answers = dispatcher(gather_ms=0), []
        large = Request(body=bytes(5 << 20), content_type="a/b")
        pending = [gives.submit(large, answers.append) for _ in range(4)]
        pending[1].is_answered = True  # answered while it was queued
        channel = Held(gives)
        await asyncio.sleep(0)
        assert [[one.request is large for one in batch] for batch in channel.batches] == [[True]]
        channel.finish()
        await asyncio.sleep(0)
        channel.finish()
        await asyncio.sleep(0)
        assert channel.sizes == [1, 1, 1]
        assert channel.batches[1] == [pending[2]]

    asyncio.run(run())

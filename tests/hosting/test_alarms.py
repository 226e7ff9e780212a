"""An alarm rings when a timer of its own would, however often it was put off."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.hosting.http.timing import Alarm


class Loop:
    """A loop whose time passes when it is told so."""

    def __init__(self):
        self.now, self.timers = 0.0, []

    def time(self):
        return self.now

    def call_later(self, seconds, call):
        timer = Timer(self.now + seconds, call, self.timers)
        self.timers.append(timer)
        return timer

    def advance(self, seconds):
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.at <= end]:
            first = min(due, key=lambda timer: timer.at)
            self.timers.remove(first)
            self.now = max(self.now, first.at)
            first.call()
        self.now = end


class Timer:
    def __init__(self, at, call, timers):
        self.at, self.call, self._timers = at, call, timers

    def cancel(self):
        self._timers.remove(self)


@given(st.lists(st.tuples(st.sampled_from(["start", "stop", "close"]), st.integers(0, 7))))
def test_it_rings_as_a_timer_of_its_own_would(steps):
    loop, rung, expected, since = Loop(), [], [], None
    alarm = Alarm(loop, 4.0, lambda: rung.append(loop.now))
    for step, seconds in [*steps, ("stop", 0)]:
        getattr(alarm, step)()
        since = loop.now if step == "start" else None
        assert alarm.is_running == (since is not None)
        if since is not None and seconds >= 4:
            expected.append(since + 4.0)
        loop.advance(seconds)
        assert len(loop.timers) <= 1
    assert rung == expected


def test_one_that_is_closed_keeps_nothing():
    loop = Loop()
    alarm = Alarm(loop, 4.0, lambda: None)
    alarm.start()
    alarm.close()
    alarm.close()
    assert loop.timers == []

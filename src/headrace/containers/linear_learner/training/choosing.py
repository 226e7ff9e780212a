"""Which library takes the steps of a job: NumPy, or PyTorch where it is installed and has been seen to be faster.

How fast either is depends on more than sizes: with another program on one of two processors, PyTorch's threads wait for each
other, and a step takes it several times as long. So both are timed, by steps of the job itself, now and again.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from statistics import median

from headrace._optional import available
from headrace.containers.linear_learner.training.libraries import NUMPY, Library, torch_library

__all__ = ["Choice"]

WORTH_A_STEP = 1 << 23  # multiplications, below which PyTorch was not faster
WORTH_LOADING = 30.0  # seconds of steps by NumPy, of which PyTorch saves a sixth or more; loading it takes 1 to 2
WORTH_TRYING = 0.5  # where it has been loaded already
TRIAL = 12  # steps
COUNTED = 6  # of them: the last ones, when threads of the other library have gone to sleep
SOON, LATER, LATEST = 48, 200, 3200  # steps from one trial to the next


class Choice:
    """The library that takes the next step.

    Args:
        weights: How many there are.
    """

    def __init__(self, weights: int) -> None:
        self.steps: Counter[str] = Counter()
        """How many each library has taken."""
        self._weights = weights
        self._libraries: dict[str, Library] = {"NumPy": NUMPY}
        self._paces = {name: deque[float](maxlen=COUNTED) for name in ("NumPy", "PyTorch")}
        self._now, self._other = "NumPy", "PyTorch"
        self._open = available("torch")
        self._spent = 0.0
        self._ahead = 0
        self._trying = False
        self._since = 0  # how many steps ago a trial began or ended
        self._period = LATER

    @property
    def library(self) -> Library:
        """Takes the next step."""
        return self._libraries[self._now]

    def plan(self, examples: int, a_step: int) -> None:
        """So many examples are ahead, in steps of ``a_step``."""
        self._ahead = examples if a_step * self._weights >= WORTH_A_STEP else 0
        for paces in self._paces.values():  # An example takes longer in small steps.
            paces.clear()

    def took(self, seconds: float, examples: int) -> None:
        """A step over so many examples has been made, in so many seconds."""
        self.steps[self._now] += 1
        if not self._open or examples * self._weights < WORTH_A_STEP:
            return
        self._paces[self._now].append(seconds / examples)
        self._since += 1
        if len(self._libraries) == 1:
            self._spent += seconds
            if self._spent + self._ahead * self._pace(self._now) > _worth():
                self._load()
        elif self._trying:
            if self._since == TRIAL:
                self._judge()
        elif self._since >= self._period or (self._since >= SOON and self._pace(self._now) > self._pace(self._other)):
            self._try_other()

    def _pace(self, name: str) -> float:
        """Seconds that an example has taken of late."""
        return median(self._paces[name] or (0.0,))

    def _load(self) -> None:
        try:
            self._libraries["PyTorch"] = torch_library()
        except Exception:  # noqa: BLE001 - one that is broken is as good as none
            self._open = False
        else:
            self._try_other()

    def _try_other(self) -> None:
        self._now, self._other = self._other, self._now
        self._trying, self._since = True, 0

    def _judge(self) -> None:
        """After the trial of a library: on with it, or back."""
        if self._pace(self._now) < self._pace(self._other):
            self._period = LATER
        else:
            self._now, self._other = self._other, self._now
            self._period = min(2 * self._period, LATEST)
        self._trying, self._since = False, 0


def _worth() -> float:
    return WORTH_TRYING if "torch" in sys.modules else WORTH_LOADING

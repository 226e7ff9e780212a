"""Some of the kills of tests/writing/distributed/kills.py: one of each kind, into each place."""

import pytest
from tests.writing.distributed.kills import FORMATS, PLACES, VICTIMS, prepared


@pytest.mark.ray
@pytest.mark.slow
def test_kills():
    with prepared() as kills:
        told = [kills.run(seed) for seed in range(12)]
    assert {word for each in told for word in each.replace("@", " ").split()} >= {*FORMATS, *PLACES, *VICTIMS}

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.framed.records import bounds

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1)


@given(NUMBERS, st.sampled_from([1, -1, 2, -3]))
def test_the_least_and_the_largest(numbers: list[int], step: int) -> None:
    array = np.array(numbers, np.int64)[::step]
    array.flags.writeable = False
    assert bounds(array) == (array.min(), array.max())


def test_bounds_of_nothing() -> None:
    with pytest.raises(ValueError, match="no bounds"):
        bounds(np.zeros(0, np.int64))

"""This checkout beside an earlier one."""

import pytest
from benchmarks.compare.before import Change, measure_both, table
from benchmarks.compare.driver import ROOT, Run
from benchmarks.data import TINY, Files


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    Files(folder, TINY).prepare()
    return Run(folder=folder, size="tiny", rounds=2, turn_s=0.0, quiet_s=0.0, roles=("headrace",), say=lambda _: None)


def test_both_checkouts_read_the_same_data(run):
    changes = measure_both("W1", run, ROOT)
    assert [change.error for change in changes] == [None, None]
    for change in changes:
        assert change.workload == "W1"
        assert len(change.now) == len(change.before) == 2
    assert "| W1 | Headrace |" in table(changes)


def test_a_checkout_without_an_environment_is_an_error(run, tmp_path):
    changes = measure_both("W1", run, tmp_path)
    assert all(f"no {tmp_path}" in change.error for change in changes)
    assert "worst" not in table(changes)


def test_ratios_and_the_worst_of_them():
    faster = Change(workload="W1", system="Headrace", now=[1.0, 2.0, 3.0], before=[2.0, 5.0, 8.0])
    slower = Change(workload="W5", system="Headrace", now=[4.0, 4.0], before=[2.0, 3.0])
    failed = Change(workload="W9", system="Headrace", error="it failed")
    assert faster.ratios == (2.0, 2.5)
    assert table([faster, slower, failed]).splitlines()[2:] == [
        "| W1 | Headrace | 2.00 | 2.50 |",
        "| W5 | Headrace | 0.50 | 0.62 |",
        "| W9 | Headrace |  | it failed |",
        "",
        "worst: 0.50, W5, Headrace",
    ]

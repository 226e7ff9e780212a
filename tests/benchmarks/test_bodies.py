"""Every benchmark body that needs no peer runs once, tiny and untimed, so that it cannot rot."""

from __future__ import annotations

import os

import pytest
from benchmarks.compare.tasks import System
from benchmarks.compare.workloads import WORKLOADS
from benchmarks.data import TINY, Files
from tests.benchmarks.prepared_folder import prepare

from headrace import _native

SYSTEMS = {system.start: system for workload in WORKLOADS.values() for system in workload.systems}
PREPARED = "prepared:"  # these read what TFDS itself has prepared
PEER_FREE = [
    pytest.param(system, id=start, marks=[pytest.mark.peer] if start.startswith(PREPARED) else [])
    for start, system in SYSTEMS.items()
    if system.role != "peer"
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    made = Files(tmp_path_factory.mktemp("bench"), TINY)
    prepare(made)
    return made


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize("system", PEER_FREE)
def test_system_reads_or_writes_exactly_the_data(system: System, files: Files):
    before = {module: dict(vars(module)) for module in (os, _native)}
    task = system.task(files)
    task.check()
    assert task.run().rows > 0
    assert {module: dict(vars(module)) for module in before} == before, (
        "a benchmark changed what others use and did not put it back"
    )


def test_micro_bodies(files: Files):
    from benchmarks.micro.bodies import bodies

    names = [body.name for body in bodies(files) if body.call() is not NotImplemented]
    assert len(names) == len(set(names)) > 10


@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_workers_flow(capsys):
    from benchmarks.flows.workers import main

    assert main(["--ms", "0.01", "--examples", "64", "--rounds", "1"]) == 0
    assert "two workers over one" in capsys.readouterr().out


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("name", ["tfrecord", "gzip", "shards", "tenfold", "npy"])
def test_flows(name: str, shuffle: bool, files: Files):
    from benchmarks.flows.epoch import Flow, show

    assert name in show(Flow(format=name, shuffle=shuffle), files, 1)


def test_csv_flow(tmp_path):
    from benchmarks.flows import csv

    table = csv.write_table(tmp_path / "x.csv", 300)
    assert csv.measure(tmp_path / "x.csv", table, 1).keys() == csv.EPOCHS.keys()
    assert csv.measure_rows(tmp_path / "x.csv", table, 20).keys() == csv.ROW_READERS.keys()


def test_tables_flow(tmp_path):
    from benchmarks.flows import tables

    found = tables.measure(tmp_path, 200, 1)
    assert found.keys() == {name for name, _ in tables.tasks(tmp_path, 200)}
    assert min(found.values()) > 0


def test_linear_learner_flow(capsys):
    from benchmarks.flows.linear_learner import main

    assert main(["--examples", "400", "--rounds", "1"]) == 0
    assert capsys.readouterr().out.count("examples/s") == 3

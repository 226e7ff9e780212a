"""``--on ray`` and ``--address``: the commands print what they print on one machine."""

from __future__ import annotations

import os
import socket

import numpy as np
import pytest
from tests.clusters import running_cluster

import headrace as hr

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster of two nodes. This process is not connected to it."""
    with running_cluster(2, connected=False) as nodes:
        yield nodes.address


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    hr.write(tmp_path / "a.tfrecord@3", {"x": rng.random((300, 4), np.float32), "label": rng.integers(0, 9, 300)})
    return tmp_path / "a.tfrecord@3"


def test_convert(run, cluster, data, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    here = run("convert", data, tmp_path / "here" / "b.array_record@2", "--json")
    there = run("convert", data, tmp_path / "there" / "b.array_record@2", "--json", "--on", "ray", "--address", cluster)
    assert (there.code, there.exception) == (0, None)
    told = [{**done.json, "paths": [os.path.basename(path) for path in done.json["paths"]]} for done in (here, there)]
    assert told[1] == told[0]
    for name in told[0]["paths"]:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    again = run("convert", data, tmp_path / "there" / "b.array_record@2", "--on", "ray", "--address", cluster)
    assert again.code == 1
    assert "already exists" in again.err
    text = run(
        "convert", data, tmp_path / "there" / "c.npz", "--where", "label < 5", "--on", "ray", "--address", cluster
    )
    assert text.code == 0
    assert f"{int((hr.open(data).batch(range(300))['label'] < 5).sum())} examples into" in text.out


def test_verify(run, cluster, data, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", cluster)
    here, there = run("verify", data), run("verify", data, "--on", "ray")
    assert (there.code, there.out) == (here.code, here.out)
    assert here.code == 0
    damaged = sorted(tmp_path.glob("a.tfrecord-*"))[1]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    for form in ((), ("--json",), ("--images",)):
        here, there = run("verify", data, *form), run("verify", data, *form, "--on", "ray")
        assert (there.code, there.out) == (here.code, here.out)
        assert here.code == 1


def test_stats(run, cluster, data, tmp_path):
    on_ray = ("--on", "ray", "--address", cluster)
    for form in (("--all", "--json"), ("--sample", "50", "--json", "-c", "label"), ("--where", "label = 3", "--brief")):
        here, there = run("stats", data, *form), run("stats", data, *form, *on_ray)
        assert there.code == here.code == 0
        if "--json" not in form:
            assert there.out == here.out
            continue
        assert there.json["statement"] == here.json["statement"]
        for one, other in zip(here.json["features"], there.json["features"], strict=True):
            assert one.keys() == other.keys()
            for name, value in one.items():
                assert other[name] == (pytest.approx(value) if name in ("mean", "std") else value)
    assert run("stats", data, "--html", tmp_path / "stats.html", *on_ray).code == 0
    assert "label" in (tmp_path / "stats.html").read_text()


@pytest.mark.parametrize("command", ["convert", "verify", "stats"])
def test_addresses_that_lead_nowhere(run, data, tmp_path, command, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    files = (data, tmp_path / "b.npz") if command == "convert" else (data,)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    gone = run(command, *files, "--on", "ray", "--address", address)
    assert gone.code not in (0, 2)
    assert address in gone.err
    assert "Check the address" in gone.err
    nonsense = run(command, *files, "--on", "ray", "--address", "nonsense")
    assert nonsense.code == 2
    assert "host:port" in nonsense.err
    without = run(command, *files, "--address", address)
    assert without.code == 2
    assert "only --on ray has an address" in without.err
    assert not (tmp_path / "b.npz").exists()

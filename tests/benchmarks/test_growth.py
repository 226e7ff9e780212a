"""The simulation of larger clusters: its requests are those that a store counts, and its times those that are known."""

import numpy as np
import pytest
from benchmarks.flows.growth import BLOCK, Assumed, Measured, play, play_tasks, requests_of, stream_blocks
from tests.io.store_server import environment, serving_store
from tests.writing.distributed.test_store import Once

import headrace as hr


def test_blocks_of_a_stream():
    assert [stream_blocks(size) for size in (1, 256 << 10, (256 << 10) + 1, BLOCK - (256 << 10))] == [1, 1, 2, 5]
    assert stream_blocks(BLOCK) == 6
    assert stream_blocks(1 << 30) == 5 + 128


def test_tasks_of_equal_length():
    rng = np.random.default_rng(0)
    assert play_tasks(10, 2, 1.0, 0.0, rng, varies=False) == 5.0
    assert play_tasks(10, 100, 1.0, 0.0, rng, varies=False) == 1.0
    assert play_tasks(10, 3, 1.0, 0.0, rng, varies=False) == 4.0
    assert play_tasks(1000, 1000, 0.0, 0.01, rng, varies=False) == pytest.approx(10.0)  # the driver alone


def test_more_nodes_and_fewer_bytes_take_less():
    def seconds(size, nodes):
        return sum(play(size, nodes, Measured(), Assumed()).seconds.values())

    assert seconds(10**13, 10) > 5 * seconds(10**12, 10)
    assert seconds(10**13, 10) > seconds(10**13, 100)
    done = play(10**12, 10, Measured(), Assumed())
    assert done.seconds["write"] > 2 * 10**12 / (10 * Assumed.node_gb_s * 1e9)  # every byte passes the network twice


def test_requests_are_those_of_a_conversion(monkeypatch):
    files, rows = 2, 100
    content = np.random.default_rng(0).bytes(100_000)
    with serving_store() as store:
        for name, value in environment("s3", store.url).items():
            monkeypatch.setenv(name, value)
        hr.write(f"s3://bucket/in/a.tfrecord@{files}", ({"x": content, "row": row} for row in range(files * rows)))
        size = len(store.objects["in/a.tfrecord-00000-of-00002"])
        with store.counting() as asked:
            hr.convert("s3://bucket/in/a.tfrecord@2", "s3://bucket/out/b.array_record@2", on=Once())
    removals = [path for method, path in asked if method == "DELETE" or path.endswith("?delete")]
    gets = [path for method, path in asked if method in ("GET", "HEAD") and "list-type" not in path]
    expected = requests_of(files, size, 2, size)
    assert len(removals) == expected.removals
    # Some requests are of the whole conversion, and not of each file: the types are those of the first 1,000 examples, here all.
    assert expected.gets <= len(gets) <= expected.gets + files * stream_blocks(size) + 4
    assert expected.puts <= len(asked) - len(gets) - len(removals) <= expected.puts + 4

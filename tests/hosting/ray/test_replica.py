"""What a replica checks on its node, and one page of metrics from several. Without Ray."""

import os
from dataclasses import replace

import pytest
from tests.hosting.places import sample

import headrace as hr
from headrace.hosting.ray.replica import ReplicaError, ReplicaSpec, build_app, merge_metrics, resources_of
from headrace.hosting.settings import RaySettings, Settings
from headrace.hosting.stage import linear_learner_stage, script_stage


def spec_of(*stages, **settings):
    return ReplicaSpec.of("abalone", stages, Settings(**settings), direct=False, path=[])


def test_one_worker_by_default():
    assert spec_of(sample("echo")).settings.workers == 1
    assert spec_of(sample("echo"), workers=3).settings.workers == 3
    assert build_app(spec_of(sample("echo"))).state.pool.unready is not None


def test_another_version_of_headrace_on_the_node():
    spec = replace(spec_of(sample("echo")), version="9.9")
    with pytest.raises(
        ReplicaError, match=rf"on node \S+: Headrace {hr.__version__} is installed there, and 9\.9 here"
    ):
        build_app(spec)


def test_a_model_that_the_node_does_not_see(tmp_path):
    with pytest.raises(hr.NoFiles, match=r"expected a folder or a model\.tar\.gz, found nothing"):
        spec_of(linear_learner_stage(tmp_path / "model.tar.gz"))
    model = tmp_path / "model.tar.gz"
    model.write_bytes(b"x")
    spec = spec_of(linear_learner_stage(model))
    model.unlink()
    with pytest.raises(ReplicaError, match=r"on node \S+: .*found nothing.*Every node must see the same files"):
        build_app(spec)


def test_a_model_that_was_replaced(tmp_path):
    model = tmp_path / "model.tar.gz"
    model.write_bytes(b"one")
    spec = spec_of(linear_learner_stage(model))
    model.write_bytes(b"other")
    with pytest.raises(
        ReplicaError, match=r"not the file that was deployed \(5 bytes, and 3 then.*update the endpoint"
    ):
        build_app(spec)
    model.write_bytes(b"two")
    os.utime(model, ns=(1, 1))
    with pytest.raises(ReplicaError, match="not the file that was deployed"):
        build_app(spec)


def test_a_script_that_the_node_does_not_see(tmp_path):
    (tmp_path / "model").mkdir()
    spec = spec_of(script_stage(tmp_path / "model", entry_point="serve.py", source_dir=tmp_path / "nowhere"))
    with pytest.raises(ReplicaError, match=r"on node \S+: .*nowhere"):
        build_app(spec)


def test_metrics_of_several_replicas():
    first = '# HELP n Requests.\n# TYPE n counter\nn 1\n# HELP m Sizes.\n# TYPE m gauge\nm{status="200"} 2.5\n'
    second = "# HELP n Requests.\n# TYPE n counter\nn 4\n"
    assert merge_metrics([("b", second), ("a", first)]).splitlines() == [
        "# HELP n Requests.",
        "# TYPE n counter",
        'n{replica="a"} 1',
        'n{replica="b"} 4',
        "# HELP m Sizes.",
        "# TYPE m gauge",
        'm{replica="a",status="200"} 2.5',
    ]


def test_settings_of_the_place():
    assert RaySettings().bounds == (1, 1)
    assert RaySettings(replicas=(1, 8)).bounds == (1, 8)
    assert RaySettings(replicas=[2, 3]).bounds == (2, 3)
    given = RaySettings(replicas=(1, 8), address="10.0.0.1:6379", resources={"GPU": 0.5})
    assert RaySettings.from_json(given.to_json()) == given
    for wrong in (0, -1, (0, 2), (3, 2), (1,), (1, 2, 3), "2", None, 1.5, ("a", "b")):
        with pytest.raises(ValueError, match="replicas must be"):
            RaySettings(replicas=wrong)
    with pytest.raises(ValueError, match="cannot take -1 of GPU"):
        RaySettings(resources={"GPU": -1})


def test_a_replica_takes_a_processor_for_each_worker():
    assert resources_of(RaySettings(), Settings()) == {"CPU": 1}
    assert resources_of(RaySettings(), Settings(workers=3)) == {"CPU": 3}
    given = RaySettings(resources={"CPU": 0.5, "GPU": 1})
    assert resources_of(given, Settings(workers=3)) == {"CPU": 0.5, "GPU": 1}

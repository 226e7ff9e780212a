"""The folders of a training job are those of SageMaker's containers."""

from pathlib import Path

import pytest

from headrace.contracts.job import TrainingJob


def test_folders():
    job = TrainingJob(name="j", base_dir=Path("/opt/ml"))
    assert {
        name: getattr(job, name).as_posix()
        for name in ("config_dir", "model_dir", "output_dir", "output_data_dir", "checkpoint_dir", "code_dir")
    } == {
        "config_dir": "/opt/ml/input/config",
        "model_dir": "/opt/ml/model",
        "output_dir": "/opt/ml/output",
        "output_data_dir": "/opt/ml/output/data",
        "checkpoint_dir": "/opt/ml/checkpoints",
        "code_dir": "/opt/ml/code",
    }
    assert job.channel_dir("train").as_posix() == "/opt/ml/input/data/train"
    assert job.pipe("train", 2).as_posix() == "/opt/ml/input/data/train_2"


def test_the_host_is_one_of_the_hosts():
    with pytest.raises(ValueError, match="current_host must be one of a, b, got 'c'"):
        TrainingJob(name="j", base_dir=Path("/opt/ml"), hosts=("a", "b"), current_host="c")

"""The same data trains the same model in every accepted form."""

import io
import json

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from tests.containers.linear_learner.jobs import CSV, RECORDIO, feed, job, train, write_csv

from headrace import _native
from headrace.containers.linear_learner.container import LinearLearnerContainer
from headrace.containers.linear_learner.training.channels import _csv_blocks
from headrace.errors import JobFailed
from headrace.sagemaker.amazon.record_pb2 import Record
from headrace.sagemaker.common import write_numpy_to_dense_tensor, write_spmatrix_to_sparse_tensor

EPOCHS = 4
OPTIONS = {"predictor_type": "regressor", "mini_batch_size": 16, "epochs": EPOCHS, "num_models": 4}


def examples(n=150):
    random = np.random.default_rng(0)
    features = random.normal(size=(n, 6)).astype(np.float32)
    features[random.random(features.shape) < 0.5] = 0
    return features, (features @ [1, 2, 3, 0, -1, 0.5] + 4).astype(np.float32)


def dense(features, labels):
    buffer = io.BytesIO()
    write_numpy_to_dense_tensor(buffer, features, labels)
    return buffer.getvalue()


def sparse(features, labels):
    buffer = io.BytesIO()
    write_spmatrix_to_sparse_tensor(buffer, scipy.sparse.csr_matrix(features), labels)
    return buffer.getvalue()


def put(base, name, content):
    path = base / "input/data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.fixture
def from_csv(tmp_path):
    write_csv(tmp_path / "csv/input/data/train/x.csv", *examples())
    return train(tmp_path / "csv", **OPTIONS)[0].model


def same(model, other, tolerance=1e-4):
    np.testing.assert_allclose(model.weights, other.weights, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(model.bias, other.bias, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", [RECORDIO, None])
def test_dense_records(tmp_path, from_csv, kind):
    put(tmp_path, "train/x.pbr", dense(*examples()))
    same(train(tmp_path, channels={"train": kind}, **OPTIONS)[0].model, from_csv)


def test_sparse_records(tmp_path, from_csv):
    put(tmp_path, "train/x.pbr", sparse(*examples()))
    same(train(tmp_path, channels={"train": RECORDIO}, **OPTIONS)[0].model, from_csv, 1e-3)


def test_mini_batches_span_files(tmp_path, from_csv):
    features, labels = examples()
    for number, (start, stop) in enumerate([(0, 10), (10, 11), (11, 100), (100, 150)]):
        put(tmp_path, f"train/part-{number}.pbr", dense(features[start:stop], labels[start:stop]))
    same(train(tmp_path, channels={"train": RECORDIO}, **OPTIONS)[0].model, from_csv)


@pytest.mark.parametrize("form", [dense, sparse])
def test_pipes(tmp_path, from_csv, form):
    content = form(*examples())
    feed(tmp_path / "input/data/train", *[content] * (EPOCHS + 1))  # one more for the scores at the end
    model = train(tmp_path, channels={"train": RECORDIO}, modes={"train": "Pipe"}, **OPTIONS)[0].model
    same(model, from_csv, 1e-3)


def test_pipes_of_csv(tmp_path, from_csv):
    write_csv(tmp_path / "x.csv", *examples())
    feed(tmp_path / "input/data/train", *[(tmp_path / "x.csv").read_bytes()] * (EPOCHS + 1))
    same(train(tmp_path, channels={"train": CSV}, modes={"train": "Pipe"}, **OPTIONS)[0].model, from_csv)


def test_the_same_job_learns_the_same(tmp_path, from_csv):
    write_csv(tmp_path / "again/input/data/train/x.csv", *examples())
    train(tmp_path / "again", **OPTIONS)
    assert (tmp_path / "again/model/model_algo-1").read_bytes() == (tmp_path / "csv/model/model_algo-1").read_bytes()


def test_hidden_files_do_not_count(tmp_path, from_csv):
    write_csv(tmp_path / "input/data/train/x.csv", *examples())
    put(tmp_path, "train/.DS_Store", b"\x00\x01")
    put(tmp_path, "train/_SUCCESS", b"")
    put(tmp_path, "train/_part-0.csv", b"1,2\n")
    handler, lines = train(tmp_path, **OPTIONS)
    same(handler.model, from_csv, 0)
    (line,) = [line for line in lines if "is read without" in line]
    assert "The channel 'train' is read without .DS_Store and 1 more: files whose names begin with . or _" in line


def refused(base, message, **options):
    made, _ = job(base, **{**OPTIONS, **options})
    with pytest.raises(JobFailed) as caught:
        LinearLearnerContainer().train(made)
    for part in message:
        assert part in str(caught.value)
    assert (base / "output/failure").read_text(encoding="utf-8") == str(caught.value)
    assert not list((base / "model").iterdir())


def test_no_data(tmp_path):
    refused(tmp_path, ["channel 'train'", "required"], channels={})
    (tmp_path / "input/data/train").mkdir(parents=True)
    refused(tmp_path, ["no data", "'train'"])
    put(tmp_path, "train/empty.csv", b"")
    refused(tmp_path, ["no examples"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1,2,3\n4,x,6\n", ["bad.csv", "'x' in column 2", "record 1"]),
        (b"x,2,3\n", ["'x' in column 1", "record 0"]),
        (b"1,2,3\n\n4,5,\n", ["'' in column 3", "record 1"]),
        (b"1,2,NA\n", ["'NA' in column 3"]),
        (b"1,2,3\n" * 5000 + b"4,5,\xff\n", ["column 3", "record 5000"]),
        (b"1,2,3\n4,5\n", ["bad.csv", "2 columns, and 3 in the first", "record 1"]),
        (b'1,2,3\n4,5,"6\n', ["bad.csv", "record 1"]),
        (b"label,a,b\n1,2,3\n", ["bad.csv", "label", "header"]),
        (b"1\n2\n", ["bad.csv", "features"]),
        (b"1,2\nnan,2\n", ["label is not finite", "'train'", "bad.csv", "record 1"]),
        (b"1,2,3\n" * 5000 + b"4,5,nan\n", ["feature 1 is not finite", "'train'", "bad.csv", "record 5000"]),
        (b"1,2,3\n4,1e39,6\n", ["'1e39' in column 2", "bad.csv", "record 1"]),
    ],
)
def test_csv_that_cannot_be_used(tmp_path, content, message):
    put(tmp_path, "train/bad.csv", content)
    refused(tmp_path, message)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    npst.arrays(np.float32, st.tuples(st.integers(1, 30), st.integers(2, 5)), elements=st.floats(width=32)),
    st.sampled_from(["%.9g", " %.9g ", '"%.9g"', "%+.9e"]),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.booleans(),
)
def test_csv_is_read_as_numpy_reads_it(tmp_path, table, form, line_end, marked):
    path = tmp_path / "table.csv"
    text = line_end.join(",".join(form % value for value in row) for row in table.tolist())
    path.write_bytes((b"\xef\xbb\xbf" if marked else b"") + text.encode())
    expected = np.loadtxt(path, np.float32, delimiter=",", quotechar='"', ndmin=2, encoding="utf-8-sig")
    blocks = list(_csv_blocks(path, 7, 1))
    assert all(len(block.labels) <= 7 for block in blocks)
    np.testing.assert_array_equal(np.concatenate([block.labels for block in blocks]), expected[:, 0])
    np.testing.assert_array_equal(np.concatenate([block.rows.values for block in blocks]), expected[:, 1:])


@pytest.mark.parametrize("form", [dense, sparse])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_records_with_features_that_are_not_finite(tmp_path, form, value):
    features, labels = examples(150)
    put(tmp_path, "train/a.pbr", form(features, labels))
    features[40, 3] = value
    put(tmp_path, "train/b.pbr", form(features, labels))
    refused(tmp_path, ["feature 3 is not finite", "b.pbr", "record 40"], channels={"train": RECORDIO})


def test_large_features_are_finite(tmp_path):
    put(tmp_path, "train/x.csv", b"1,1e30\n2,2e30\n3,3e30\n")
    assert train(tmp_path, **OPTIONS)[0].model.weights[0, 0] > 0


def test_other_numbers_of_features(tmp_path):
    put(tmp_path, "train/bad.csv", b"1,2,3\n4,5,6\n")
    refused(tmp_path, ["7 features", "2"], feature_dim=7)


@pytest.mark.parametrize("predictor", ["regressor", "binary_classifier", "multiclass_classifier"])
@pytest.mark.parametrize("name", ["validation", "test"])
def test_channels_without_examples(tmp_path, name, predictor):
    put(tmp_path, "train/x.csv", b"1,2,3\n0,5,6\n")
    channels = {"train": CSV, name: CSV}
    options = {"predictor_type": predictor, "num_classes": 3, "channels": channels}
    refused(tmp_path, [f"no data in the channel '{name}'"], **options)
    put(tmp_path, f"{name}/empty.csv", b"")
    refused(tmp_path, [f"Customer error: the channel '{name}' has no examples"], **options)


def test_a_pipe_without_examples(tmp_path):
    put(tmp_path, "train/x.csv", b"1,2,3\n0,5,6\n")
    feed(tmp_path / "input/data/validation", b"")
    message = ["Customer error: the channel 'validation' has no examples"]
    refused(tmp_path, message, channels={"train": CSV, "validation": CSV}, modes={"validation": "Pipe"})


@pytest.mark.parametrize("name", ["validation", "test"])
@pytest.mark.parametrize("content", [b"1,2\n", b"1,2,3,4\n"])
def test_other_numbers_of_features_than_in_training(tmp_path, name, content):
    put(tmp_path, "train/x.csv", b"1,2,3\n4,5,6\n")
    put(tmp_path, f"{name}/other.csv", content)
    found = content.count(b",")
    message = ["Customer error: 2 features were expected", f"the channel '{name}' has an example with {found} - at"]
    refused(tmp_path, [*message, "other.csv"], channels={"train": CSV, name: CSV})


@pytest.mark.parametrize("count", [1, 2, 3])
def test_records_have_one_label(tmp_path, count):
    record = Record()
    record.features["values"].float32_tensor.values.extend([1, 2])
    record.label["values"].float32_tensor.values.extend(range(count))
    put(tmp_path, "train/x.pbr", _native.frame_recordio_payloads([record.SerializeToString()] * 2).tobytes())
    options = {"channels": {"train": RECORDIO}}
    if count == 1:
        assert train(tmp_path, **{**OPTIONS, **options})[0].model.weights.shape == (1, 2)
    else:
        refused(tmp_path, ["x.pbr", "one label in each record", f"({count},)"], **options)


def test_records_have_all_features_also_sparse_ones(tmp_path):
    file = io.BytesIO()
    write_spmatrix_to_sparse_tensor(file, scipy.sparse.csr_matrix(np.ones((2, 3), np.float32)), np.zeros(2, np.float32))
    lacking = Record()
    lacking.label["values"].float32_tensor.values.append(1)
    lacking = _native.frame_recordio_payloads([lacking.SerializeToString()]).tobytes()
    put(tmp_path, "train/x.pbr", file.getvalue() + lacking)
    message = ["x.pbr", "the tensor 'values' in every record", "none in some of the first"]
    refused(tmp_path, message, channels={"train": RECORDIO})


def test_records_of_other_types(tmp_path):
    features, labels = examples(5)
    put(tmp_path, "train/x.pbr", dense(features.astype(np.float64), labels))
    refused(tmp_path, ["x.pbr", "Float32", "float64"], channels={"train": RECORDIO})


@pytest.mark.parametrize("value", [0, 5, 1.7e9])
def test_a_feature_that_does_not_vary_has_no_weight(tmp_path, value):
    features, labels = examples()
    wider = np.column_stack([features, np.full(len(labels), value)])
    write_csv(tmp_path / "input/data/train/x.csv", wider, labels)
    model = train(tmp_path, **OPTIONS, wd=0, l1=0)[0].model
    assert model.weights[0, 6] == 0
    other = wider * ([1] * 6 + [1.01])
    assert np.array_equal(model.scores(np.float32(wider)), model.scores(np.float32(other)))


def test_a_sparse_feature_that_does_not_occur_has_no_weight(tmp_path):
    features, labels = examples()
    features[:, 2] = 0
    put(tmp_path, "train/x.pbr", sparse(features, labels))
    model = train(tmp_path, channels={"train": RECORDIO}, **OPTIONS, wd=0, l1=0)[0].model
    assert model.weights[0, 2] == 0
    assert (np.delete(model.weights[0], 2) != 0).all()


def test_advice_about_damage_names_nothing_that_jobs_lack(tmp_path):
    put(tmp_path, "train/x.pbr", dense(*examples())[:-6])
    with pytest.raises(JobFailed, match=r"`headrace verify` lists every fault\.$"):
        train(tmp_path, channels={"train": RECORDIO}, **OPTIONS)


def test_records_that_are_cut_off(tmp_path):
    put(tmp_path, "train/x.pbr", dense(*examples())[:-3])
    refused(tmp_path, ["x.pbr"], channels={"train": RECORDIO})


@pytest.mark.parametrize(
    ("predictor", "labels"), [("binary_classifier", [0, 1, 2]), ("binary_classifier", [0, 0.5]), ("multiclass_classifier", [0, 3])]
)  # fmt: skip
def test_labels_that_are_not_classes(tmp_path, predictor, labels):
    write_csv(tmp_path / "input/data/train/x.csv", np.ones((len(labels), 2)), labels)
    refused(tmp_path, ["label"], predictor_type=predictor, num_classes=3)


def test_other_content_types(tmp_path):
    put(tmp_path, "train/x", b"{}")
    refused(tmp_path, ["application/json", "text/csv"], channels={"train": "application/json"})
    refused(tmp_path, ["label_size"], channels={"train": "text/csv;label_size=2"})


def test_several_hosts(tmp_path):
    made, _ = job(tmp_path, **OPTIONS)
    several = type(made)(name="job", base_dir=tmp_path, hosts=("algo-1", "algo-2"), log=made.log)
    with pytest.raises(JobFailed, match="one machine"):
        LinearLearnerContainer().train(several)


def test_models_that_run_away_do_not_take_the_others_along(tmp_path):
    features, labels = examples()
    write_csv(tmp_path / "input/data/train/x.csv", features * 20, labels)
    handler, lines = train(tmp_path, **{**OPTIONS, "optimizer": "sgd", "normalize_data": "false", "num_models": 32})
    assert np.isfinite(handler.model.weights).all()
    assert any('"sum": null' in line for line in lines)
    for line in lines:
        if line.startswith("#metrics "):
            json.loads(line.removeprefix("#metrics "), parse_constant=pytest.fail)


def test_a_learning_rate_with_which_nothing_is_left(tmp_path):
    features, labels = examples()
    write_csv(tmp_path / "input/data/train/x.csv", features * 1e15, labels)
    refused(tmp_path, ["finite", "learning_rate"], optimizer="sgd", normalize_data="false", learning_rate=1e9)


def test_a_stop_keeps_what_there_is(tmp_path):
    write_csv(tmp_path / "input/data/train/x.csv", *examples())
    made, lines = job(tmp_path, **{**OPTIONS, "epochs": 1000})

    def log(line):
        lines.append(line)
        if "Epoch 2:" in line:
            made.stop.set()

    stopped = type(made)(**{name: getattr(made, name) for name in made.__slots__ if name != "log"}, log=log)
    LinearLearnerContainer().train(stopped)
    assert LinearLearnerContainer().handler(made.model_dir).model.features == 6
    assert not any("Epoch 5:" in line for line in lines)


def test_memory_that_the_models_would_take_is_checked_first(tmp_path):
    features, labels = examples(20)
    write_csv(tmp_path / "input/data/train/x.csv", features, np.abs(labels).round())
    refused(
        tmp_path,
        ["MiB", "num_models"],
        predictor_type="multiclass_classifier",
        num_classes=1_000_000,
        num_models=1_000_000,
    )

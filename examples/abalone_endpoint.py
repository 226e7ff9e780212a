"""From a table to an endpoint for raw rows: featurize, train, build a pipeline, predict.

python examples/abalone_endpoint.py [abalone.csv]

Pass the Abalone table of UCI (4,177 rows, no header, rings in the last column), or let it generate a similar one. The
same code runs on SageMaker with `import sagemaker` instead of `from headrace import sagemaker`.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from headrace import sagemaker
from headrace.sagemaker.deserializers import JSONDeserializer
from headrace.sagemaker.serializers import CSVSerializer

SCRIPT = Path(__file__).parent / "scripts" / "sklearn_abalone_featurizer.py"
ROW = "M, 0.44, 0.365, 0.125, 0.516, 0.2155, 0.114, 0.155"


def make_table(path, rows=1500):
    """Shells with correlated sizes and weights, and rings that depend on them plus noise."""
    random = np.random.default_rng(7)
    length = random.normal(0.52, 0.12, rows).clip(0.1, 0.8)
    diameter, height = length * 0.78 + random.normal(0, 0.01, rows), length * 0.27 + random.normal(0, 0.01, rows)
    whole = 5.6 * length**3 * random.normal(1, 0.08, rows)
    shucked, viscera, shell = (whole * share * random.normal(1, 0.1, rows) for share in (0.43, 0.22, 0.29))
    rings = 2.8 + 8 * diameter + 11 * shell - 9 * shucked + 4 * whole + random.gamma(2, 1, rows)
    columns = (length, diameter, height, whole, shucked, viscera, shell)
    with Path(path).open("w") as file:
        file.writelines(
            ",".join([str(sex), *(f"{number:.4f}" for number in numbers), f"{max(1, round(ring))}"]) + "\n"
            for sex, ring, *numbers in zip(random.choice(list("MFI"), rows), rings, *columns, strict=True)
        )


def split(table, folder):
    """Split a table in two: every fifth row is for testing."""
    rows = Path(table).read_text().splitlines(keepends=True)
    parts = {"train": [row for number, row in enumerate(rows) if number % 5], "test": rows[::5]}
    for name, part in parts.items():
        path = Path(folder) / f"{name}.csv"
        path.write_text("".join(part))
        yield path


def flow(session, train, test):
    """Run four jobs and an endpoint. Returns the endpoint's answer, and the errors of the learner and of least squares."""
    train, test = (session.upload_data(part, key_prefix=f"abalone/{part.stem}") for part in (train, test))

    featurizer = sagemaker.SKLearn(
        entry_point=SCRIPT, framework_version="1.2-1", instance_type="local", sagemaker_session=session
    )
    featurizer.fit({"train": train}, logs=False)

    transformer = featurizer.transformer(assemble_with="Line", accept="text/csv")
    features = {}
    for channel, rows in (("train", train), ("test", test)):
        transformer.transform(rows, content_type="text/csv", logs=False)
        features[channel] = sagemaker.TrainingInput(transformer.output_path, content_type="text/csv")

    learner = sagemaker.LinearLearner(
        predictor_type="regressor", feature_dim=10, mini_batch_size=32, sagemaker_session=session
    )
    learner.fit(features, logs=False)

    pipeline = sagemaker.PipelineModel(models=[featurizer.create_model(), learner.create_model()])
    predictor = pipeline.deploy(serializer=CSVSerializer(), deserializer=JSONDeserializer())
    try:
        answer = predictor.predict(ROW)
    finally:
        predictor.delete_endpoint()
    return answer, errors(session, features, learner)


def errors(session, features, learner):
    """Root mean squared errors on the test rows, of the learner and of least squares fitted to the training features."""
    labels, known = {}, {}
    for channel, given in features.items():
        rows = np.concatenate([np.loadtxt(one.path, delimiter=",") for one in session.objects(given.s3_data)])
        labels[channel], known[channel] = rows[:, 0], np.column_stack([rows[:, 1:], np.ones(len(rows))])
    best = known["test"] @ np.linalg.lstsq(known["train"], labels["train"], rcond=None)[0]
    job = session.logs_for_job(learner.training_job_name)
    ours = float(job.rpartition("test rmse <loss>=")[2].partition("\n")[0])
    return ours, float(np.sqrt(np.mean((best - labels["test"]) ** 2)))


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("HEADRACE_STATE_DIR", str(Path(folder) / "state"))
        table = Path(folder) / "abalone.csv"
        if len(sys.argv) > 1:
            table = Path(sys.argv[1])
        else:
            make_table(table)
        answer, (ours, least_squares) = flow(sagemaker.Session(Path(folder) / "store"), *split(table, folder))
    print(f"{ROW}  ->  {answer}")
    print(
        f"root mean squared error on test rows {ours:.3f} rings; least squares on the same features {least_squares:.3f}"
    )


if __name__ == "__main__":
    main()

"""Both stages as a model of MLflow, which ``mlflow models serve`` serves. It reads ``{"inputs": [csv, ...]}``.

``python -m benchmarks.serving.peers.mlflow_both FOLDER`` writes the model.
"""

import sys

import mlflow

from benchmarks.serving import stages


class Both(mlflow.pyfunc.PythonModel):
    def load_context(self, context):  # noqa: ARG002 - MLflow's
        stages.load()

    def predict(self, context, model_input, params=None):  # noqa: ARG002 - MLflow's
        return stages.chain_many([str(text) for text in model_input])


if __name__ == "__main__":
    mlflow.pyfunc.save_model(sys.argv[1], python_model=Both(), pip_requirements=[])

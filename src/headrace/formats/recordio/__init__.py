"""MXNet's RecordIO framing, which SageMaker uses."""

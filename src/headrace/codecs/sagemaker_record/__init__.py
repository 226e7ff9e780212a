"""SageMaker's Record message."""

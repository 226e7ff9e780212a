"""Containers train models and answer requests: user scripts, as SageMaker's containers run them, and built-in algorithms."""

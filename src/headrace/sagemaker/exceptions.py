"""``sagemaker.exceptions``: what notebooks catch."""

from headrace.errors import JobFailed

__all__ = ["UnexpectedStatusException"]

UnexpectedStatusException = JobFailed
"""A job that failed. Its message is the reason; it has no ``allowed_statuses`` and ``actual_status``."""

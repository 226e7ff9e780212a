"""The exceptions of ``sagemaker.exceptions`` that notebooks catch."""

from headrace.errors import JobFailed

__all__ = ["UnexpectedStatusException"]

UnexpectedStatusException = JobFailed
"""The error of a failed job. The message is the reason. It lacks ``allowed_statuses`` and ``actual_status``."""

"""The loggers of the toolkits."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["configure_logger", "get_logger"]


def get_logger() -> logging.Logger:
    """The toolkits' logger."""
    return logging.getLogger("sagemaker-containers")


def configure_logger(level: int, log_format: str | None = None, **options: Any) -> None:
    """Log to the standard error stream."""
    logging.basicConfig(
        level=level, format=log_format or "%(asctime)s %(name)-12s %(levelname)-8s %(message)s", **options
    )

"""``sagemaker.local``. Every session is a local one here."""

from __future__ import annotations

from typing import Any

from headrace.sagemaker.session import Session

__all__ = ["LocalSession"]


class LocalSession(Session):
    """:class:`Session` by its name in the SDK's local mode, which needs Docker there.

    Args:
        boto_session: A session of AWS; only its region is used.
        s3_endpoint_url, disable_local_code: Accepted and ignored.
        options: Arguments of :class:`Session`.
    """

    def __init__(
        self,
        boto_session: Any = None,
        s3_endpoint_url: str | None = None,
        disable_local_code: bool = False,
        **options: Any,
    ) -> None:
        del s3_endpoint_url, disable_local_code
        super().__init__(boto_session, **options)
        self.config: Any = None
        """``{"local": {"local_code": True}}`` in notebooks; ignored."""

"""Files in the store: ``sagemaker.s3``."""

from __future__ import annotations

import io
from typing import Any
from urllib.parse import urlsplit

from headrace.sagemaker.session import Session

__all__ = ["S3Downloader", "S3Uploader", "is_s3_url", "parse_s3_url", "s3_path_join"]


def is_s3_url(url: str) -> bool:
    """Whether a URL begins with ``s3://``."""
    return urlsplit(url).scheme == "s3"


def parse_s3_url(url: str) -> tuple[str, str]:
    """Split a URL into bucket and key.

    Raises:
        ValueError: It does not begin with ``s3://``.

    >>> parse_s3_url("s3://my-bucket/a/b.csv")
    ('my-bucket', 'a/b.csv')
    """
    if not is_s3_url(url):
        raise ValueError(f"expected a URI that begins with s3://, found {url!r}")
    return urlsplit(url).netloc, url.partition("://")[2].partition("/")[2]


def s3_path_join(*parts: str, with_end_slash: bool = False) -> str:
    """Join the parts of a URI by single slashes.

    >>> s3_path_join("s3://my-bucket/", "a//c/", "/b.csv")
    's3://my-bucket/a/c/b.csv'
    """
    scheme, slashes, first = parts[0].partition("://") if parts else ("", "", "")
    rest = (first, *parts[1:]) if slashes else parts
    path = "/".join(filter(None, "/".join(rest).split("/")))
    start = f"{scheme}://" if slashes else ""
    return f"{start}{path}{'/' if with_end_slash and path else ''}"


class S3Uploader:
    """Copies files and texts into the store."""

    @staticmethod
    def upload(
        local_path: str,
        desired_s3_uri: str,
        kms_key: str | None = None,
        sagemaker_session: Session | None = None,
        callback: Any = None,
    ) -> str:
        """Copy a file, or all files below a folder; see :meth:`Session.upload_data`."""
        del kms_key
        bucket, prefix = parse_s3_url(desired_s3_uri)
        return (sagemaker_session or Session()).upload_data(local_path, bucket, prefix, callback=callback)

    @staticmethod
    def upload_string_as_file_body(
        body: str,
        desired_s3_uri: str,
        kms_key: str | None = None,
        sagemaker_session: Session | None = None,
    ) -> str:
        """Write a text as an object."""
        return S3Uploader.upload_bytes(body.encode(), desired_s3_uri, kms_key, sagemaker_session)

    @staticmethod
    def upload_bytes(
        b: bytes | io.BytesIO, s3_uri: str, kms_key: str | None = None, sagemaker_session: Session | None = None
    ) -> str:
        """Write bytes as an object."""
        del kms_key
        (sagemaker_session or Session()).store.put_bytes(b.read() if isinstance(b, io.BytesIO) else b, s3_uri)
        return s3_uri


class S3Downloader:
    """Reads and lists the objects of the store."""

    @staticmethod
    def download(
        s3_uri: str,
        local_path: str,
        kms_key: str | None = None,
        sagemaker_session: Session | None = None,
        callback: Any = None,
    ) -> list[str]:
        """Copy the objects whose URI begins with ``s3_uri`` into a folder, and return the paths of the copies."""
        del kms_key, callback
        bucket, prefix = parse_s3_url(s3_uri)
        return (sagemaker_session or Session()).download_data(local_path, bucket, prefix)

    @staticmethod
    def read_file(s3_uri: str, sagemaker_session: Session | None = None) -> str:
        """The text of an object."""
        return (sagemaker_session or Session()).read_s3_file(*parse_s3_url(s3_uri))

    @staticmethod
    def read_bytes(s3_uri: str, sagemaker_session: Session | None = None) -> bytes:
        """The bytes of an object."""
        return (sagemaker_session or Session()).resolve(s3_uri).read_bytes()

    @staticmethod
    def list(s3_uri: str, sagemaker_session: Session | None = None) -> list[str]:
        """List the URIs of objects that begin with ``s3_uri``."""
        return [one.uri for one in (sagemaker_session or Session()).objects(s3_uri)]

"""Files of the store by the names of the SDK."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from headrace.sagemaker.session import Session

__all__ = ["S3Downloader", "S3Uploader", "parse_s3_url", "s3_path_join"]


def parse_s3_url(url: str) -> tuple[str, str]:
    """Bucket and key.

    Raises:
        ValueError: Not ``s3://``.

    >>> parse_s3_url("s3://my-bucket/a/b.csv")
    ('my-bucket', 'a/b.csv')
    """
    parts = urlsplit(url)
    if parts.scheme != "s3":
        raise ValueError(f"expected a URI that begins with s3://, found {url!r}")
    return parts.netloc, url.partition("://")[2].partition("/")[2]


def s3_path_join(*parts: str) -> str:
    """Parts of a URI with one slash between two.

    >>> s3_path_join("s3://my-bucket/", "a/", "/b.csv")
    's3://my-bucket/a/b.csv'
    """
    scheme, slashes, first = parts[0].partition("://") if parts else ("", "", "")
    rest = (first, *parts[1:]) if slashes else parts
    path = "/".join(filter(None, (part.strip("/") for part in rest)))
    return f"{scheme}{slashes}{path}" if slashes else path


class S3Uploader:
    """Puts files into the store."""

    @staticmethod
    def upload(
        local_path: str,
        desired_s3_uri: str,
        kms_key: str | None = None,
        sagemaker_session: Session | None = None,
        callback: Any = None,
    ) -> str:
        """Copy a file, or all files below a folder, to below a URI; see :meth:`Session.upload_data`."""
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
        """Write a text as the object of a URI."""
        del kms_key
        bucket, key = parse_s3_url(desired_s3_uri)
        return (sagemaker_session or Session()).upload_string_as_file_body(body, bucket, key)


class S3Downloader:
    """Gets files from the store."""

    @staticmethod
    def download(
        s3_uri: str,
        local_path: str,
        kms_key: str | None = None,
        sagemaker_session: Session | None = None,
        callback: Any = None,
    ) -> list[str]:
        """Copy the objects whose URI begins with ``s3_uri`` into a folder; gives the paths of the copies."""
        del kms_key, callback
        bucket, prefix = parse_s3_url(s3_uri)
        return (sagemaker_session or Session()).download_data(local_path, bucket, prefix)

    @staticmethod
    def read_file(s3_uri: str, sagemaker_session: Session | None = None) -> str:
        """The text of an object."""
        return (sagemaker_session or Session()).read_s3_file(*parse_s3_url(s3_uri))

    @staticmethod
    def list(s3_uri: str, sagemaker_session: Session | None = None) -> list[str]:
        """The URIs that begin with ``s3_uri``."""
        return [one.uri for one in (sagemaker_session or Session()).objects(s3_uri)]

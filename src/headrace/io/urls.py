"""URL parsing without requests: scheme, store, key, and sibling names."""

from __future__ import annotations

import os
import re
import string
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from headrace.errors import UnsupportedData, Where
from headrace.io.names import COUNTED, as_shard

__all__ = [
    "GLOB",
    "LISTING",
    "SCHEMES",
    "Url",
    "base_name",
    "child_of",
    "escape_url",
    "is_listing",
    "is_url",
    "is_url_pattern",
    "key_pattern",
    "local_path",
    "lost_slash_hint",
    "other_scheme_hint",
    "parent_of",
    "path_of_file_url",
    "scheme_of",
    "sibling_of",
    "stays_below",
]


SCHEMES = ("http", "https", "s3", "gs", "az")
"""Schemes that can be read."""
OTHER_SCHEMES = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
    "wasb": "az",
    "wasbs": "az",
}
"""What other libraries call the schemes of stores that are read."""
LISTING = SCHEMES[2:]
"""Schemes of stores that list objects and take new ones."""
SHAPE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
GLOB = re.compile(r"[*?\[]")
"""What makes a pattern of a name."""
UNESCAPED = "/!$&'()*+,;=:@[]^|"
"""What obstore sends as it is, besides letters, digits and ``-._~``. A server may treat ``%2B`` differently from ``+``."""
COLLAPSED = re.compile(rf"(?:{'|'.join(SCHEMES)}):/", re.IGNORECASE)
"""Begins a URL, also one that a ``Path`` has taken a slash from."""
LOST_SLASH = re.compile(rf"(?:^|[/\\])((?:{'|'.join(SCHEMES)}):)[/\\](?![/\\])", re.IGNORECASE)
LEADS_OUT = re.compile(
    r"\0|^[/\\]|^[A-Za-z][A-Za-z0-9+.-]*:[/\\]|(?:^|[/\\])\.\.(?:[/\\]|$)" + (r"|^[A-Za-z]:" if os.name == "nt" else "")
)
"""Matches absolute paths, URLs, drives, ``..`` with the separators of any system, and names with a null byte."""


def scheme_of(path: str) -> str | None:
    """The scheme of any URL in lower case; ``None`` for a path.

    >>> scheme_of("s3://bucket/key"), scheme_of("/data/train.csv")
    ('s3', None)
    """
    found = SHAPE.match(path)
    return None if found is None else found[1].lower()


def other_scheme_hint(url: str) -> str:
    """A hint for a URL with the scheme that another library uses; empty for any other.

    >>> other_scheme_hint("s3a://bucket/x.npy")
    'Here it is s3://bucket/x.npy.'
    """
    scheme = OTHER_SCHEMES.get(scheme_of(url) or "")
    if scheme is None:
        return ""
    bucket, _, key = url.partition("://")[2].partition("/")
    return f"Here it is {scheme}://{bucket.partition('@')[0]}/{key}."  # abfs://container@account/key


def path_of_file_url(url: str) -> str:
    """The path of a ``file://`` URL. Escapes are decoded (RFC 8089), unless a file has the name as it is.

    >>> path_of_file_url("file://localhost/my%20data/x.npy")
    '/my data/x.npy'
    """
    path = url.partition("://")[2]
    path = path.removeprefix("localhost") if path.startswith("localhost/") else path
    return path if os.path.exists(path) else unquote(path, errors="surrogateescape")


def is_url(path: object) -> bool:
    """Whether ``path`` is a URL of a scheme that can be read."""
    return isinstance(path, str) and "://" in path[:8] and scheme_of(path) in SCHEMES


def is_listing(path: object) -> bool:
    """Whether ``path`` is a URL of a store that lists objects and takes new ones."""
    return is_url(path) and scheme_of(str(path)) in LISTING


def local_path(path: str | os.PathLike[str], what: str) -> Path:
    """A path on this machine, with the home folder for ``~``, where no URL is taken. A URL would become a folder ``s3:``.

    Args:
        path: As given.
        what: What it is, for the message.

    Raises:
        UnsupportedData: It is a URL.
    """
    text = os.fspath(path)
    if COLLAPSED.match(text):
        raise UnsupportedData(
            Where(path=text),
            expected=f"{what} on this machine",
            found=f"a URL of {text.partition(':')[0].lower()}://",
            hint="Files are written there and read from there directly. Use a local or a mounted folder.",
        )
    return Path(text).expanduser()


def lost_slash_hint(path: str) -> str:
    """A hint for a path that was a URL before a ``Path`` took a slash from it; empty for any other path.

    >>> lost_slash_hint("/home/s3:/bucket/x.npy")
    "A Path takes a slash from a URL: pass the text 's3://bucket/x.npy'."
    """
    found = LOST_SLASH.search(path)
    return f"A Path takes a slash from a URL: pass the text '{found[1]}//{path[found.end() :]}'." if found else ""


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed URL.

    Args:
        store: ``https://host:port`` or ``s3://bucket``. The whole URL if it has a query, as signed URLs do, or escapes that a key would lose:
            ``%2F`` is no ``/``.
        key: The key in the store, not percent-encoded; empty if the store is the whole URL.
        scheme: In lower case.
    """

    store: str
    key: str
    scheme: str

    @classmethod
    def of(cls, text: str) -> Url:
        """Parse a URL.

        >>> Url.of("https://host/a%20b/x.npy")
        Url(store='https://host', key='a b/x.npy', scheme='https')
        """
        scheme = scheme_of(text) or ""
        if scheme in ("http", "https"):
            parts = urlsplit(text)
            key = unquote(parts.path)[1:]
            if parts.query or not _is_sent_unchanged(parts.path, key):
                return cls(text.partition("#")[0], "", scheme)
            return cls(f"{scheme}://{parts.netloc}", key, scheme)
        bucket, _, key = text.split("://", 1)[1].partition("/")
        return cls(f"{scheme}://{bucket}", key, scheme)

    @property
    def lists(self) -> bool:
        """Whether the store can list its objects."""
        return self.scheme in LISTING

    def at(self, key: str) -> str:
        """The URL of another object in the store."""
        return f"{self.store}/{key if self.lists else quote(key, safe=UNESCAPED)}"


def _is_sent_unchanged(path: str, key: str) -> bool:
    """Whether a request for this key has this path, apart from letters that stand for each other everywhere."""
    is_plain = key.isprintable() and not {"", ".", ".."} & set(key.removesuffix("/").split("/"))
    sent, given = quote(key, safe=UNESCAPED), quote(path[1:], safe=UNESCAPED + "%")
    return not key or (is_plain and sent.lower() == given.lower())  # %c3 is %C3


def base_name(path: str) -> str:
    """The last component of a path or URL, without the query of a URL.

    >>> base_name("https://host/train.tfrecord?signature=1"), base_name("data/x.npy")
    ('train.tfrecord', 'x.npy')
    """
    if is_url(path):
        return os.path.basename(re.split(r"[?#]", path)[0] if path[:4].lower() == "http" else path)
    return os.path.basename(path)


def sibling_of(path: str, name: str) -> str:
    """The file ``name`` in the folder of the file or URL ``path``. A URL or an absolute path is returned unchanged.

    >>> sibling_of("https://host/train/rows.csv", "images/1.jpg"), sibling_of("train/rows.csv", "images/1.jpg")
    ('https://host/train/images/1.jpg', 'train/images/1.jpg')
    """
    if is_url(name):
        return name
    if not is_url(path):
        return os.path.join(os.path.dirname(path), name)
    is_http = path[:4].lower() == "http"
    folder = (path.partition("?")[0] if is_http else path).rpartition("/")[0]
    parts: list[str] = []
    for part in name.replace("\\", "/").split("/") if os.sep == "\\" else name.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part == "..":
            folder = folder.rpartition("/")[0]
        elif part not in ("", "."):
            parts.append(part)
    inner = "/".join(parts)
    return f"{folder}/{quote(inner, safe=UNESCAPED) if is_http else inner}"


def stays_below(name: str) -> bool:
    """Whether a name from an untrusted file stays in the folder of that file, or below it.

    >>> [stays_below(name) for name in ("images/1.jpg", "../1.jpg", "/etc/passwd", "http://host/1.jpg")]
    [True, False, False, False]
    """
    return LEADS_OUT.search(name) is None


def escape_url(url: str) -> str:
    """An HTTP URL as a request line can hold it: blanks and letters beyond ASCII are escaped, and what is escaped stays so.

    >>> escape_url("https://host/a b%20c?x=ü")
    'https://host/a%20b%20c?x=%C3%BC'
    """
    parts = urlsplit(url)
    path, query = (quote(part, safe=string.punctuation) for part in (parts.path, parts.query))
    return parts._replace(path=path, query=query).geturl()


def child_of(folder: str, name: str) -> str:
    """The path or URL of ``name`` in a folder.

    >>> child_of("s3://bucket/train/", "cat/1.jpg"), child_of("train", "cat")
    ('s3://bucket/train/cat/1.jpg', 'train/cat')
    """
    return f"{folder.rstrip('/')}/{name}" if is_url(folder) else os.path.join(folder, name)


def parent_of(folder: str) -> tuple[str, str]:
    """The parent of a folder and its name there. A bucket has neither.

    >>> parent_of("s3://bucket/train/"), parent_of("s3://bucket")
    (('s3://bucket', 'train'), ('s3://bucket', ''))
    """
    if not is_url(folder):
        return os.path.split(os.path.abspath(folder))
    place = Url.of(folder)
    above, _, name = place.key.rstrip("/").rpartition("/")
    return place.at(above).rstrip("/"), name


def is_url_pattern(url: str) -> bool:
    """Whether a URL names files by a glob, a shard pattern, or a shard's name, and so is not a folder."""
    name = key_pattern(url)
    return bool(GLOB.search(name) or as_shard(url) or ("@" in name and COUNTED.fullmatch(url)))


def key_pattern(url: str) -> str:
    """The part of a URL that may be a pattern, in which an escaped ``[`` is none. On an HTTP server, "?" starts a query, which is not."""
    if is_listing(url):
        return Url.of(url).key
    parts = urlsplit(url)
    return "" if parts.query else parts.path[1:]

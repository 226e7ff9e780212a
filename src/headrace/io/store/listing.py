"""What lies in the folders of stores that list (``s3://``, ``gs://``, ``az://``): a store has keys, and folders are their beginnings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headrace.errors import UnsupportedData, Where
from headrace.io.faults import worded
from headrace.io.store.client import line_to, obstore_for, run_all, store_of
from headrace.io.urls import Url

__all__ = ["bytes_below", "is_there", "keys_below", "names_under", "no_listing"]


PAGE = 1000  # keys in an answer, by the protocols


def no_listing(url: str, found: str) -> UnsupportedData:
    """The refusal of what would need a list of an HTTP server's files."""
    return UnsupportedData(
        Where(path=url),
        expected="the URL of a file, a list of those, or shards with their number (x@8)",
        found=found,
        hint="An HTTP server does not tell which files it has. Of many small files, a CSV with a column of their URLs does "
        "(image_columns=), or shards that hold them.",
    )


def names_under(*urls: str) -> tuple[list[str], list[str]]:
    """The URLs of the objects, and of the folders, right under some folders of a store that lists.

    Raises:
        NoFiles: There is no such bucket.
        Unreachable: The store does not answer.
    """
    objects: list[str] = []
    folders: list[str] = []
    for found in run_all(urls[0], [partial(_under, url) for url in urls]):
        objects += found[0]
        folders += found[1]
    return objects, folders


async def _under(url: str) -> tuple[list[str], list[str]]:
    place, line = Url.of(url), line_to(url)
    async with line.room:
        try:
            store = store_of(line, place)
            found = await obstore_for(url).list_with_delimiter_async(store, place.key.rstrip("/") or None)
        except Exception as error:
            raise worded(error, url) from error
    objects = [place.at(each["path"]) for each in found["objects"]]
    return objects, [place.at(key.rstrip("/")) for key in found["common_prefixes"]]


def keys_below(url: str, *, most: int | None = None) -> list[str]:
    """The URLs of all objects below a folder, however deep, in the order of the store.

    Args:
        url: The folder.
        most: Stop when there are as many.

    Raises:
        NoFiles: There is no such bucket.
        Unreachable: The store does not answer.
    """
    return [key for key, _ in run_all(url, [partial(_below, url, most)])[0]]


def bytes_below(url: str) -> int:
    """The size of all objects below a folder together."""
    return sum(size for _, size in run_all(url, [partial(_below, url, None)])[0])


async def _below(url: str, most: int | None) -> list[tuple[str, int]]:
    place, line = Url.of(url), line_to(url)
    found: list[tuple[str, int]] = []
    async with line.room:
        try:
            pages = obstore_for(url).list(store_of(line, place), place.key.rstrip("/") or None, chunk_size=PAGE)
            async for page in pages:
                found += [(place.at(each["path"]), each["size"]) for each in page]
                if most is not None and len(found) >= most:
                    break
        except Exception as error:
            raise worded(error, url) from error
    return found[:most]


def is_there(urls: Sequence[str]) -> list[bool]:
    """Whether there is something under each of some names: an object, or a folder with objects in it.

    Raises:
        Unreachable: The store does not answer.
    """
    return run_all(urls[0], [partial(_is_there, url) for url in urls]) if urls else []


async def _is_there(url: str) -> bool:
    place, line = Url.of(url), line_to(url)
    if not place.key:
        return bool(await _below(url, 1))
    async with line.room:
        try:
            await obstore_for(url).head_async(store_of(line, place), place.key)
        except FileNotFoundError:
            pass
        except Exception as error:
            raise worded(error, url) from error
        else:
            return True
    return bool(await _below(url, 1))

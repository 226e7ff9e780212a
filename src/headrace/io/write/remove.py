"""What is under a name, be it a path or a URL: whether there is something, and away with it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from headrace.io.store.listing import is_there, keys_below
from headrace.io.store.upload import remove_objects
from headrace.io.urls import is_url

__all__ = ["first_there", "remove"]


def first_there(paths: Sequence[str]) -> str | None:
    """The first of some names under which there is something; URLs are asked all at once."""
    urls = [path for path in paths if is_url(path)]
    known = dict(zip(urls, is_there(urls), strict=True))
    return next((path for path in paths if (known[path] if path in known else os.path.exists(path))), None)


def remove(path: str) -> None:
    """Remove a file, or a folder with all that is in it."""
    if is_url(path):
        remove_objects([path, *keys_below(path)])
    elif os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)

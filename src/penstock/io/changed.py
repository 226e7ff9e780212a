"""The error for a file that changed while it was in use."""

from __future__ import annotations

from typing import Literal

from penstock.errors import CorruptFile, Where

__all__ = ["changed"]


def changed(path: str, *, size: int | None, found: str | int, what: Literal["file", "object"]) -> CorruptFile:
    """The error for another version than the one that was opened.

    Args:
        path: Of the file.
        size: In bytes, when it was first looked at, where that is known.
        found: Instead: what was found, or the size of another version.
        what: What is called so at this path.
    """
    first = "" if size is None else f" ({size} bytes)"
    return CorruptFile(
        Where(path=path),
        expected=f"the {what} as it was when it was first looked at{first}",
        found=f"another version ({found} bytes)" if isinstance(found, int) else found,
        hint=f"The {what} was changed meanwhile: open it again.",
    )

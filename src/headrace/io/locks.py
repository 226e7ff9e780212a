"""Locks on files, by which processes tell each other what is in use."""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import fcntl

__all__ = ["lock", "unlock"]


def lock(fd: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file until its descriptor, *and every mapping made from it*, is gone.

    Args:
        fd: The descriptor.
        shared: Whether others may hold a shared lock at the same time.
        wait: Whether to wait for whoever holds it.

    Returns:
        Whether we hold it now. Always true on Windows, where an open file cannot be deleted anyway.
    """
    if sys.platform == "win32":
        return True
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(fd, kind if wait else kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def unlock(fd: int) -> None:
    """Give a lock back, also on behalf of forked children that inherited the descriptor."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_UN)

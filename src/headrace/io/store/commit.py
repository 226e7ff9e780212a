"""Names for several complete objects at once: from a hidden prefix, with a journal, so that no reader takes a mixture of old and new for a data set.

A store cannot rename several objects in one step, so :func:`give_object_names` does it in four:

1. The journal, a hidden object beside the new ones (``.x.tfrecord.headrace-names``), lists the names to give.
2. All old objects of these names are removed.
3. The store copies each new object to its name.
4. The caller removes what was copied, then :func:`end_names` the journal.

A reader of ``x@8`` finds the old objects, or the new ones, or that some are missing. A listing (a folder, a glob, ``x@*``) shows the journal,
too, and :mod:`headrace.io.store.listing` refuses the names in it. After a kill the journal is there, and the next writer of these names does the rest.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from functools import partial

from headrace.errors import NoFiles, Unreachable
from headrace.io.faults import as_headrace_error
from headrace.io.names import as_shard
from headrace.io.store.client import client_for, obstore_for, run_all, store_of
from headrace.io.store.listing import JOURNAL_ENDING, list_below, objects_exist, read_journal
from headrace.io.store.upload import copy_objects, remove_objects
from headrace.io.urls import Url, base_name, child_of, parent_of

__all__ = ["end_names", "finish_object_names", "give_object_names", "keeps_journal"]


def give_object_names(first: str, copies: Mapping[str, str], *, replaces: bool) -> None:
    """Copy objects to their names, ``{from: to}``. The caller removes the copied ones afterwards, and then calls :func:`end_names`.

    A single object replaces the old one in one step, without a journal.

    Args:
        first: The URL after which the journal is named: of the first object, or the name of the set.
        copies: All from one hidden prefix beside ``first``, to names beside it.
        replaces: Whether there may be old objects. ``False`` spares the requests.

    Raises:
        ValueError: An object is elsewhere.
        NoFiles, Unreachable: Nothing has a new name, and old objects are there. If some were removed before the error, a note says
            that new ones wait: :func:`finish_object_names` gives them their names.
    """
    if len(copies) < 2:
        copy_objects(copies)
        return
    journal = _journal_for(first)
    text = _describe(journal, copies)
    pending = read_journal(journal)
    if pending and pending != copies:
        finish_object_names(first)
    targets = list(copies.values())
    old = _existing(targets) if replaces else []
    _put(journal, text)
    try:
        remove_objects(old)
        copy_objects(copies)
    except BaseException as error:
        _take_back(journal, targets, old, error)
        raise


def end_names(first: str, copies: Mapping[str, str]) -> None:
    """Remove the journal of objects that have their names."""
    if len(copies) > 1:
        _end(_journal_for(first))


def keeps_journal(first: str) -> bool:
    """Whether objects still wait for the names in a journal. ``True`` if in doubt: what waits must not be removed."""
    try:
        return bool(read_journal(_journal_for(first)))
    except (NoFiles, Unreachable):
        return True


def finish_object_names(first: str) -> None:
    """Finish what a process that was killed, or failed, has begun in :func:`give_object_names`. Without a journal there is nothing to finish.

    Raises:
        NoFiles, Unreachable: As for :func:`give_object_names`.
    """
    journal = _journal_for(first)
    copies = read_journal(journal)
    if not copies:
        return
    sources, targets = list(copies), list(copies.values())
    if all(objects_exist(sources)):
        remove_objects(_existing(targets))
        copy_objects(copies)
    elif not all(objects_exist(targets)):
        return  # what waited is gone; the next write of these names replaces the journal
    # Copied objects are removed only after all have their names.
    remove_objects(list_below(parent_of(sources[0])[0]))
    _end(journal)


def _end(journal: str) -> None:
    """Remove a journal. Where nothing may be removed, it becomes one without names."""
    try:
        remove_objects([journal])
    except Unreachable:
        _put(journal, b"{}")


def _existing(urls: list[str]) -> list[str]:
    return [url for url, exists in zip(urls, objects_exist(urls), strict=True) if exists]


def _take_back(journal: str, targets: list[str], old: list[str], error: BaseException) -> None:
    """After an error: remove new names and the journal, unless old objects are gone. Then the journal stays."""
    with contextlib.suppress(NoFiles, Unreachable):
        if old and not all(objects_exist(old)):
            error.add_note(
                "Old objects are removed, and all new ones wait for their names. The next write to these names, or the same call, finishes. "
                f"Until then, {journal} records this for readers."
            )
            return
        if old:
            error.add_note("The old objects are unchanged: they could not be removed, which comes first.")
        remove_objects([target for target in targets if target not in set(old)])
        _end(journal)


def _journal_for(first: str) -> str:
    """The journal of a set, whichever its number of shards is."""
    parent, name = parent_of(first)
    shard = as_shard(name)
    stem = name if shard is None else shard["stem"].removesuffix("-") + shard["end"]
    return child_of(parent, f".{stem}{JOURNAL_ENDING}")


def _describe(journal: str, copies: Mapping[str, str]) -> bytes:
    folder = parent_of(journal)[0]
    prefixes = {parent_of(source)[0] for source in copies}
    if len(prefixes) != 1 or {parent_of(target)[0] for target in copies.values()} != {folder}:
        raise ValueError(f"objects that get their names together come from one prefix and stay in {folder}")
    below = prefixes.pop().removeprefix(child_of(folder, ""))
    names = {base_name(source): base_name(target) for source, target in copies.items()}
    return json.dumps({"from": below, "names": names}).encode()


def _put(url: str, content: bytes) -> None:
    async def put() -> None:
        place, client = Url.of(url), client_for(url)
        async with client.slots:
            try:
                await obstore_for(url).put_async(store_of(client, place), place.key, content, use_multipart=False)
            except Exception as error:
                raise as_headrace_error(error, url, act="write") from error

    run_all(url, [partial(put)])

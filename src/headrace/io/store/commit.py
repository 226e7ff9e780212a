"""Names for several complete objects at once: from a hidden prefix, with a journal, so that no reader takes a mixture of old and new for a data set.

A store cannot rename several objects in one step, so :func:`give_object_names` does it in four:

1. The journal, a hidden object beside the new ones (``.x.tfrecord.headrace-names``), lists the names to give, and the version of the old object of each.
2. All old objects of these names are removed.
3. The store copies each new object to its name.
4. The caller removes what was copied, then :func:`end_names` the journal.

A reader of ``x@8`` finds the old objects, or the new ones, or that some are missing. A listing (a folder, a glob, ``x@*``) shows the journal,
too, and :mod:`headrace.io.store.listing` refuses the names in it. After a kill the journal is there, and the next writer of these names does the rest.

Much may have happened until then, so one rule says whose an object is. At a name is either nothing, or the old object that the journal lists,
or a copy that this run has made, or **something else**, which was written after the journal. Nothing else than the old objects is ever removed
or replaced to finish a journal. A run that goes on may replace something else only with ``overwrite``, as a run that begins.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from headrace.errors import NoFiles, Unreachable, Where
from headrace.io.faults import as_headrace_error, file_exists_error
from headrace.io.names import as_shard
from headrace.io.store.client import client_for, obstore_for, run_all, store_of
from headrace.io.store.listing import JOURNAL_ENDING, list_below, objects_exist, read_journal, read_noted
from headrace.io.store.requests import NotedVersion, noted_versions
from headrace.io.store.upload import copy_objects, remove_objects
from headrace.io.urls import Url, base_name, child_of, parent_of

__all__ = [
    "end_names",
    "finish_object_names",
    "give_object_names",
    "keeps_journal",
    "refuse_existing",
    "remove_copied",
]


MD5_DIGITS = 32


def give_object_names(first: str, copies: Mapping[str, str], *, overwrite: bool) -> None:
    """Copy objects to their names, ``{from: to}``. The caller removes the copied ones afterwards, and then calls :func:`end_names`.

    A single object replaces the old one in one step, without a journal. If the journal of the same copies is there, an interrupted run goes on.

    Args:
        first: The URL after which the journal is named: of the first object, or the name of the set.
        copies: All from one hidden prefix beside ``first``, to names beside it.
        overwrite: Whether objects that this run has not made are replaced. ``False``: they are an error.

    Raises:
        ValueError: An object is elsewhere.
        UnsupportedData: A name has an object that this run has not made.
        NoFiles, Unreachable: Nothing has a new name, and old objects are there. If some were removed before the error, a note says
            that new ones wait: :func:`finish_object_names` gives them their names.
    """
    if len(copies) < 2:
        if not overwrite:
            refuse_existing(first, copies)
        copy_objects(copies)
        return
    journal = _journal_for(first)
    _check_places(journal, copies)
    pending, old = read_noted(journal)
    if pending and pending != copies:
        finish_object_names(first)
    is_resumed = pending == copies
    found = _versions((*copies, *copies.values()))
    missing = [source for source in copies if found[source] is None]
    if missing:  # nothing is removed for what cannot be put in its place
        raise _gone_error(missing[0])
    given, others = _owners(copies, found, old) if is_resumed else (set(), _existing(copies, found))
    if others and not overwrite:
        raise file_exists_error(others[0])
    left = {source: target for source, target in copies.items() if target not in given}
    replaced = _existing(left, found)
    _put(journal, _describe(journal, copies, {target: found[target] for target in replaced}))
    try:
        remove_objects(replaced)
        copy_objects(left)
    except BaseException as error:
        _take_back(journal, left, {target: found[target] for target in replaced}, error, is_resumed=is_resumed)
        raise


def refuse_existing(first: str, copies: Mapping[str, str]) -> None:
    """Refuse names that something else has, or waits for. Those that an interrupted run of the same copies has given are none.

    Raises:
        UnsupportedData: There is one.
        Unreachable: The store does not answer.
    """
    targets = list(copies.values())
    pending, old = read_noted(_journal_for(first)) if len(copies) > 1 else ({}, {})
    if pending == copies:
        others = _owners(copies, _versions((*copies, *targets)), old)[1]
    else:
        waited_for = set(pending.values())
        others = [each for each in targets if each in waited_for] or [
            each for each, exists in zip(targets, objects_exist(targets), strict=True) if exists
        ]
    if others:
        raise file_exists_error(others[0])


def end_names(first: str, copies: Mapping[str, str]) -> None:
    """Remove the journal of objects that have their names, unless another write has put its own in the place."""
    if keeps_journal(first, copies):
        _end(_journal_for(first))


def keeps_journal(first: str, copies: Mapping[str, str]) -> bool:
    """Whether the journal of these copies is there. ``True`` if in doubt: what waits must not be removed."""
    if len(copies) < 2:
        return False
    try:
        return read_journal(_journal_for(first)) == copies
    except (NoFiles, Unreachable):
        return True


def finish_object_names(first: str) -> None:
    """Finish what a process that was killed, or failed, has begun in :func:`give_object_names`. Without a journal there is nothing to finish.

    A name that was written to since then keeps what it has, as if the process had not been killed.

    Raises:
        NoFiles, Unreachable: As for :func:`give_object_names`.
    """
    journal = _journal_for(first)
    copies, old = read_noted(journal)
    if not copies:
        return
    found = _versions((*copies, *copies.values()))
    left = {source: target for source, target in copies.items() if found[target] in (None, old.get(target))}
    if all(found[source] for source in left):
        remove_objects(_existing(left, found))
        copy_objects(left)
    elif not all(found[target] for target in copies.values()):
        return  # what waited is gone; the next write of these names replaces the journal
    # Copied objects are removed only after all have their names.
    prefix = parent_of(next(iter(copies)))[0]
    refusal = _remove_below(prefix)
    _end(journal)
    _warn_of_left(prefix, refusal)


def remove_copied(prefix: str, *, last: str = "") -> None:
    """Remove what was copied from a prefix. Where nothing may be removed, a warning names it.

    Args:
        prefix: The hidden prefix.
        last: The name of an object that is removed after all others.
    """
    _warn_of_left(prefix, _remove_below(prefix, last=last))


def _remove_below(prefix: str, *, last: str = "") -> str:
    """Remove everything below a prefix, one of a name last. Returns why it could not be removed, or ""."""
    try:
        below = list_below(prefix)
        remove_objects([url for url in below if base_name(url) != last])
        remove_objects([url for url in below if base_name(url) == last])
    except (NoFiles, Unreachable) as error:
        return error.found
    return ""


def _warn_of_left(prefix: str, refusal: str) -> None:
    if refusal:
        warnings.warn(
            f"All objects have their names, but the hidden ones that they were copied from could not be removed: {refusal}. "
            f"They take up space until you remove {prefix}/",
            stacklevel=3,
        )


def _end(journal: str) -> None:
    """Remove a journal. Where nothing may be removed, it becomes one without names."""
    try:
        remove_objects([journal])
    except Unreachable:
        _put(journal, b"{}")


def _versions(urls: Iterable[str]) -> dict[str, NotedVersion]:
    urls = list(urls)
    return dict(zip(urls, noted_versions(urls), strict=True))


def _existing(copies: Mapping[str, str], found: Mapping[str, NotedVersion]) -> list[str]:
    return [target for target in copies.values() if found[target]]


def _owners(
    copies: Mapping[str, str], found: Mapping[str, NotedVersion], old: Mapping[str, Any]
) -> tuple[set[str], list[str]]:
    """The names that an interrupted run has given, and those that something else has.

    Args:
        copies: Of the run.
        found: What is there.
        old: What was there before the run.
    """
    there = {source: target for source, target in copies.items() if found[target] not in (None, old.get(target))}
    given = {target for source, target in there.items() if _may_be_copy(found[source], found[target])}
    return given, [target for target in there.values() if target not in given]


def _may_be_copy(source: NotedVersion, found: NotedVersion) -> bool:
    """Whether an object may be the copy of another. ETags show it only where both are hashes of the content: of small objects on S3."""
    if source is None or found is None:
        return source is None  # it was removed after all had their names
    are_hashes = all(len(str(each[1]).strip('"')) == MD5_DIGITS for each in (source, found))
    return source[0] == found[0] and (source[1] == found[1] or not are_hashes)


def _take_back(
    journal: str,
    left: Mapping[str, str],
    replaced: Mapping[str, NotedVersion],
    error: BaseException,
    *,
    is_resumed: bool,
) -> None:
    """After an error: remove new names and the journal, unless old objects are gone, or an earlier run has given names. Then the journal stays."""
    with contextlib.suppress(NoFiles, Unreachable):
        found = _versions((*left, *left.values()))
        if not all(found[source] for source in left) and all(found[target] for target in left.values()):
            _end(journal)  # another run of the same copies was faster
            return
        if is_resumed or any(found[target] != version for target, version in replaced.items()):
            error.add_note(
                f"{'Old objects are removed, and new' if replaced else 'New'} ones wait for their names. "
                "The next write to these names, or the same call, finishes. "
                f"Until then, {journal} records this for readers."
            )
            return
        if replaced:
            error.add_note("The old objects are unchanged: they could not be removed, which comes first.")
        remove_objects([target for target in left.values() if target not in replaced])
        _end(journal)


def _gone_error(source: str) -> NoFiles:
    return NoFiles(
        Where(path=source),
        expected="the new object, which waits here for its name",
        found="none",
        hint="Another process has removed it: most likely the same call, made twice at a time, and that one has given the names. "
        "Nothing was changed. If the names are missing, call again.",
    )


def _journal_for(first: str) -> str:
    """The journal of a set, whichever its number of shards is."""
    parent, name = parent_of(first)
    shard = as_shard(name)
    stem = name if shard is None else shard["stem"].removesuffix("-") + shard["end"]
    return child_of(parent, f".{stem}{JOURNAL_ENDING}")


def _check_places(journal: str, copies: Mapping[str, str]) -> None:
    folder = parent_of(journal)[0]
    if len({parent_of(source)[0] for source in copies}) != 1 or {parent_of(each)[0] for each in copies.values()} != {
        folder
    }:
        raise ValueError(f"objects that get their names together come from one prefix and stay in {folder}")


def _describe(journal: str, copies: Mapping[str, str], replaced: Mapping[str, NotedVersion]) -> bytes:
    below = parent_of(next(iter(copies)))[0].removeprefix(child_of(parent_of(journal)[0], ""))
    names = {base_name(source): base_name(target) for source, target in copies.items()}
    old = {base_name(target): version for target, version in replaced.items()}
    return json.dumps({"from": below, "names": names, "old": old}).encode()


def _put(url: str, content: bytes) -> None:
    async def put() -> None:
        place, client = Url.of(url), client_for(url)
        async with client.slots:
            try:
                await obstore_for(url).put_async(store_of(client, place), place.key, content, use_multipart=False)
            except Exception as error:
                raise as_headrace_error(error, url, act="write") from error

    run_all(url, [partial(put)])

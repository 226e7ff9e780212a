"""The loader: batches by iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from headrace import _hooks, _native
from headrace._arguments import check_choice, check_flag, check_integer, function
from headrace.contracts.protocols import (
    BringsOrder,
    Fingerprinted,
    NeedsMultiple,
    ReadsBatches,
    Sampler,
    SourceLike,
    Streams,
    defines,
    offers,
    reads_batches,
)
from headrace.contracts.random_keys import HasRandomStreams, ReadsWithKeys
from headrace.contracts.records import Shard
from headrace.contracts.values import Batch, Batch_co, MadeBatch
from headrace.errors import StateMismatch, Where
from headrace.io.system import cached_property, usable_cores, usable_memory
from headrace.loading.handover import To, make_handover
from headrace.loading.iteration import Batches, LoaderPosition, RunPlan
from headrace.loading.prefetch import count_threads
from headrace.loading.ranks import ShardLike, find_ray_shard, resolve_shard
from headrace.loading.report import LoaderReport
from headrace.loading.rounds import Cursor, JobMemory, RoundPlan
from headrace.loading.thread_choice import ThreadChoice, recall_choice
from headrace.loading.workers.pool import StartMethod, check_workers
from headrace.sampling.samplers import InOrder, Shuffled, check_seed
from headrace.sources.operations.near_misses import FOR_LOADERS, explain_missing

__all__ = ["Loader", "idle_bytes"]

STATE_VERSION = 1
MOST_EPOCHS = (1 << 63) - 1
IDLE_BYTES = 256 << 20  # if the size of memory is unknown
IDLE_SHARE = 16
LEAST_IDLE_BYTES, MOST_IDLE_BYTES = 32 << 20, 1 << 30


class Loader(Iterable[Batch_co]):
    """Iterates over batches of a source, prefetched by threads or processes, in an order that can be resumed to the exact batch.

    ``for batch in loader`` runs through ``epochs`` epochs; the next such loop runs the following ones. After a loop that ended
    early, the next one continues with the next batch, and so does a loader, in any process, that has loaded this one's state. Make
    a new loader for each evaluation.

    The contents of a batch depend only on the source, the order, ``batch_size`` and ``shard``: not on threads, workers,
    prefetching, timing, or where a run was stopped and resumed.

    Args:
        source: The result of :func:`headrace.open`, a :class:`~headrace.Mixture`, or any object with ``len`` and
            ``batch(indices)``; also a frame of pandas or Polars, an Arrow table, columns as a dict, or an iterable of
            examples, which is read into memory.
        batch_size: Examples per batch, on each rank.
        shuffle: A new permutation of all examples in every epoch, computed from ``seed``; takes no memory.
        seed: In ``[0, 2^64)``, for the permutations and for the random numbers of ``source.map(..., seeded=True)``.
        sampler: A custom order, instead of ``shuffle``.
        epochs: How many epochs a loop runs. ``None``: forever.
        shard: The rank of this process and the number of ranks. The default comes from ``torch.distributed``, JAX, Ray
            Train or the launcher (``RANK`` and ``WORLD_SIZE``); otherwise there is a single rank. ``Shard()`` reads
            everything in every process. ``"ray"`` requires Ray Train: it is an error outside of a training function.
            The ranks together read every position of an epoch exactly once, and all get the same number of batches: an
            incomplete last round is divided evenly. If it has fewer examples than ranks, they join the previous
            round, whose first batches then hold one more.
        drop_last: Drop an incomplete round of ``world * batch_size``, so all batches have the same size.
        map_batch: A function applied to every batch, called in the threads. It must not depend on the order of its calls,
            nor fill arrays that it returned before: batches wait to be used.
        threads: The most threads that make batches while the consumer works; a consumer that would wait helps. By
            default one fewer than the number of cores (1 to 16), or none if the loader measures that they do not help. 0:
            every batch is made on request.
        workers: Number of processes that make batches, instead of threads: for functions in pure Python (``source.map``,
            ``map_batch``), which run one at a time within a process. They start and end with each loop.
        start_method: ``"fork"`` (the default where it is safe), or ``"forkserver"`` or ``"spawn"``, which pickle source and functions.
        prefetch: How far ahead each thread or worker works, in jobs of up to about four milliseconds (one batch, or several
            small ones). By default 2, or 1 if jobs have many megabytes. 0 is the same as ``threads=0``; workers count it as 1.
        to: ``"numpy"`` arrays, ``"torch"`` tensors (no copy) or ``"jax"`` arrays.
        device: The target of tensors (``"cuda"``, a ``torch.device``) or JAX arrays (a device, a ``Sharding``), also of those that
            ``map_batch`` made with the library of ``to``. Copies start before the batch is requested; with torch, GPU copies come from pinned
            memory, on a separate stream.

    Raises:
        ValueError, TypeError: an argument is out of range.
        MissingExtra: ``to`` needs a package that is not installed.

    While iterating, a data error is raised in place of its batch, after all batches before it. An error in ``map_batch`` is
    a :class:`~headrace.TransformError` that names epoch, batch and positions. Errors in workers are the same, with the
    worker's traceback as a note. A worker that ends (killed, out of memory) raises :class:`~headrace.WorkerDied`. An object
    that cannot be pickled for workers raises :class:`~headrace.UnsupportedData`.
    """

    # What comes out of a loop: a batch, what the user's function makes of it, or that in arrays of another library.
    # fmt: off
    @overload
    def __init__(
        self: Loader[Batch], source: SourceLike, batch_size: int, *, shuffle: bool = ..., seed: int = ..., sampler: Sampler | None = ...,
        epochs: int | None = ..., shard: ShardLike = ..., drop_last: bool = ..., map_batch: None = ...,
        threads: int | None = ..., workers: int = ..., start_method: StartMethod | None = ..., prefetch: int | None = ...,
        to: To = ..., device: Any = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[MadeBatch], source: SourceLike, batch_size: int, *, shuffle: bool = ..., seed: int = ..., sampler: Sampler | None = ...,
        epochs: int | None = ..., shard: ShardLike = ..., drop_last: bool = ..., map_batch: Callable[[Batch], MadeBatch],
        threads: int | None = ..., workers: int = ..., start_method: StartMethod | None = ..., prefetch: int | None = ...,
        to: Literal["numpy"] = ..., device: Any = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[Any], source: SourceLike, batch_size: int, *, shuffle: bool = ..., seed: int = ..., sampler: Sampler | None = ...,
        epochs: int | None = ..., shard: ShardLike = ..., drop_last: bool = ..., map_batch: Callable[[Batch], Any],
        threads: int | None = ..., workers: int = ..., start_method: StartMethod | None = ..., prefetch: int | None = ...,
        to: Literal["torch", "jax"], device: Any = ...,
    ) -> None: ...
    # fmt: on
    def __init__(  # noqa: PLR0913 - one option per feature
        self,
        source: SourceLike,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        sampler: Sampler | None = None,
        epochs: int | None = 1,
        shard: ShardLike = None,
        drop_last: bool = False,
        map_batch: Callable[[Batch], Any] | None = None,
        threads: int | None = None,
        workers: int = 0,
        start_method: StartMethod | None = None,
        prefetch: int | None = None,
        to: To = "numpy",
        device: Any = None,
    ) -> None:
        source = _as_source(source)
        shuffle, drop_last = check_flag(shuffle, "shuffle"), check_flag(drop_last, "drop_last")
        seed = check_seed(check_integer(seed, "seed"))
        _check_order(sampler)
        if shuffle and sampler is not None:
            raise ValueError("a sampler is an order: give either shuffle=True or sampler=, not both")
        if sampler is None and offers(source, BringsOrder):
            source, sampler = source.ordered(shuffle=shuffle, seed=seed)
        self._source = source
        self._sampler = sampler
        self._seed = seed if shuffle else None
        self._random_seed = seed if _is_random(source) else None
        self._epochs = None if epochs is None else check_integer(epochs, "epochs", least=1, most=MOST_EPOCHS)
        check_choice(to, "to", ("numpy", "torch", "jax"))
        self._shard, self._takes_default_shard = resolve_shard(shard, to), shard is None
        self._layout = RoundPlan(self._shard.world, check_integer(batch_size, "batch_size", least=1), drop_last)
        _check_multiple(source, self._layout.batch_size)
        self._map_batch = function(map_batch, "map_batch")
        self._workers = check_workers(workers, threads, start_method)
        self._start_method = start_method
        self._threads = 0 if self._workers else count_threads(threads)
        self._requests_threads = threads is not None
        self._prefetch = 2 if prefetch is None else check_integer(prefetch, "prefetch")
        self._least_prefetch = 1 if prefetch is None else self._prefetch
        self._memory = JobMemory()
        self._to: To = to
        self._device = device
        _native.pool_keep(idle_bytes(usable_memory()))
        make_handover(to, device)  # report a missing package now, not at the first batch
        self._progress = LoaderPosition(Cursor(0, 0))

    batch_sampler = None  # PyTorch Lightning reads it of every validation loader that has a sampler

    @property
    def source(self) -> ReadsBatches:
        """The source of the examples."""
        return self._source

    @property
    def batch_size(self) -> int:
        """Examples per batch."""
        return self._layout.batch_size

    @property
    def shard(self) -> Shard:
        """The rank of this process and the number of ranks."""
        return self._shard

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, counted from 0."""
        return self._progress.cursor.epoch

    @cached_property
    def sampler(self) -> Sampler:
        """The order: maps a position in an epoch to an index."""
        if self._workers:
            from headrace.loading.workers.processes import evaluate_filters

            evaluate_filters(self._source, self._workers, self._start_method)
        if self._sampler is not None:
            return self._sampler
        n = len(self._source)
        return InOrder(n) if self._seed is None else Shuffled(n, seed=self._seed)

    def __iter__(self) -> Iterator[Batch_co]:
        """The batches from the current position to the end of the epochs.

        Several iterators may run at once, independently; the loader's state is that of the newest. Each is for one thread at a time.
        """
        old = self._progress
        self._progress = LoaderPosition(self._normal(old.cursor), finished=old.finished)
        return Batches(self._recipe(), self._progress, self._stop_epoch())

    def __len__(self) -> int:
        """The number of batches in a loop that starts now; while one runs, in its whole epochs, as trainers that resume count them.

        Raises:
            TypeError: ``epochs=None``.
        """
        if self._epochs is None:
            raise TypeError("a loader with epochs=None has no length")
        n, is_open = len(self.sampler), self._progress.is_open
        cursor = Cursor(0, 0) if is_open else self._normal(self._progress.cursor)
        later = self._epochs - 1 - cursor.epoch % self._epochs
        return self._layout.rounds_left(cursor.position, n) + later * self._layout.rounds_left(0, n)

    def state_dict(self) -> dict[str, Any]:
        """The position of this loader, as plain JSON values of a few hundred bytes.

        It counts the batches the consumer has received: inside a loop, the current batch counts, prefetched ones do not. It is
        the same on every rank after the same number of batches, and contains neither ``shard``, ``batch_size`` nor ``threads``:
        a run may resume with different ones.

        The first call reads the first and the last example, also through functions of ``map``, ``filter`` and ``flat_map``.
        """
        cursor = self._progress.cursor
        return {"version": STATE_VERSION, "epoch": cursor.epoch, "position": cursor.position, **self._identity}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from the position in ``state``. Running iterators are not affected.

        Raises:
            TypeError: it is no state.
            StateMismatch: the state belongs to other data, another order or another version.
        """
        if not isinstance(state, Mapping):
            raise TypeError(f"a state is the dict that state_dict() gave, got {type(state).__name__} {state!r:.80}")
        if state.get("version") != STATE_VERSION:
            raise _state_error("version", repr(STATE_VERSION), state.get("version"))
        for name, value in self._identity.items():
            if state.get(name) != value:
                raise _state_error(name, repr(value), state.get(name))
        epoch = _count_in(state, "epoch", MOST_EPOCHS)
        position = _count_in(state, "position", len(self.sampler))
        self._progress = LoaderPosition(Cursor(epoch, position), finished=self._progress.finished)

    def report(self) -> LoaderReport:
        """Where the time of the last finished epoch went (the running one, if none has finished), and what to change.

        Raises:
            ValueError: no batch has been read yet.
        """
        times = self._progress.finished or self._progress.running
        if times is None:
            raise ValueError("there is nothing to report before the first batch")
        threads = self._threads if self._prefetch else 0
        return LoaderReport.of(times, threads=threads, workers=self._workers, cores=usable_cores())

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """The part of a state that must match when resuming. Computed once: a fingerprint reads the first and the last example."""
        sampler, source = self.sampler, self._source
        order = sampler.fingerprint if offers(sampler, Fingerprinted) else type(sampler).__qualname__
        identity = {"examples": len(source), "order": order}
        if self._random_seed is not None:
            identity["seed"] = self._random_seed
        fingerprint = source.fingerprint if offers(source, Fingerprinted) else None
        return identity if fingerprint is None else {**identity, "fingerprint": fingerprint}

    def _normal(self, cursor: Cursor) -> Cursor:
        """The same position, with the end of an epoch as the start of the next."""
        if cursor.position and cursor.position >= len(self.sampler):
            return Cursor(cursor.epoch + 1, 0)
        return cursor

    def _stop_epoch(self) -> int | None:
        """The epoch before which a loop that starts now would end: loops end at multiples of ``epochs``."""
        if self._epochs is None:
            return None
        return (self._normal(self._progress.cursor).epoch // self._epochs + 1) * self._epochs

    def _recipe(self) -> RunPlan:
        is_plain = self._sampler is None and self._seed is None and self._random_seed is None
        convert, arrive = make_handover(self._to, self._device)
        ahead = self._prefetch * (self._workers or self._threads + 1)
        thread_choice = self._choice(ahead)
        return RunPlan(
            source=self._source,
            order=lambda: self.sampler,
            layout=self._layout,
            shard=self._shard,
            transform=self._map_batch,
            convert=convert,
            arrive=arrive,
            to_device=self._device is not None,
            threads=self._threads,
            workers=self._workers,
            start_method=self._start_method,
            ahead=ahead,
            least_ahead=self._least_prefetch * (self._threads + 1),
            can_stream=is_plain and self._shard.world == 1 and defines(self._source, Streams),
            seed=self._random_seed,
            choice=thread_choice,
            memory=self._memory if thread_choice is None else thread_choice.memory,
        )

    def _choice(self, ahead: int) -> ThreadChoice | None:
        """The choice between threads and none; ``None`` if the caller made it, or if batches are copied to a device."""
        if self._requests_threads or not self._threads or not ahead or self._device is not None:
            return None
        # The code, not the function: that may refer to the source, and would keep it alive.
        settings = (self.batch_size, self._seed is None, self._to, getattr(self._map_batch, "__code__", None))
        return recall_choice(self._source, settings, ahead).claim()

    if not TYPE_CHECKING:
        __getattr__ = explain_missing(FOR_LOADERS)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the clocks."""
        return {**self.__dict__, "_progress": LoaderPosition(self._progress.cursor)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Ray sends a loader that was made outside of a training function to every worker: each reads its own part there."""
        self.__dict__.update(state)
        shard = find_ray_shard() if self._takes_default_shard else None
        if shard is not None:
            self._shard = shard
            self._layout = RoundPlan(shard.world, self._layout.batch_size, self._layout.drop_last)

    def __repr__(self) -> str:
        order = "the source's order" if self._sampler is None else repr(self._sampler)
        order = order if self._seed is None else f"shuffled with seed {self._seed}"
        return f"<Loader of {self._source!r}: batches of {self.batch_size}, {order}, {self._shard}>"


OTHER_LOADER = "The state was saved by a loader of other data or of another order (shuffle, seed, sampler)."
CHANGED = "The state was edited after state_dict() returned it, or does not come from a loader."
HINTS = {
    "fingerprint": "The first or last example differs from that of the loader that saved the state: it is other data, or a function of map, filter or "
    "flat_map gave other values, such as random numbers or times. Draw them with map(..., seeded=True), or in map_batch.",
    "version": "The state comes from another version of headrace, or not from a loader.",
    "epoch": CHANGED,
    "position": CHANGED,
}
"""What to make of a state that does not match, by the name of what differs."""


def idle_bytes(memory: int | None) -> int:
    """How much batch memory to keep between batches: a page fault costs more than filling the page."""
    return IDLE_BYTES if memory is None else min(max(memory // IDLE_SHARE, LEAST_IDLE_BYTES), MOST_IDLE_BYTES)


def _as_source(given: Any) -> ReadsBatches:
    """The source itself, or a source made from a frame, a table, a dict or an iterable."""
    return given if reads_batches(given) else _hooks.as_source(given)


def _is_random(source: object) -> bool:
    """Whether a source draws random numbers, and takes the keys of them."""
    return defines(source, ReadsWithKeys) and offers(source, HasRandomStreams) and source.random_streams() > 0


def _check_order(sampler: object) -> None:
    if sampler is not None and not (callable(getattr(sampler, "indices", None)) and hasattr(sampler, "__len__")):
        raise TypeError(f"a sampler has len() and indices(epoch, start, stop). Got {type(sampler).__name__}")


def _check_multiple(source: object, batch_size: int) -> None:
    multiple = source.batch_multiple if offers(source, NeedsMultiple) else 1
    if batch_size % multiple:
        wanted = f"need a batch_size that is a multiple of {multiple}, got {batch_size}"
        raise ValueError(f"the quotas of {source!r} {wanted}")


def _count_in(state: Mapping[str, Any], name: str, most: int) -> int:
    """A count in a state."""
    try:
        return check_integer(state.get(name), name, most=most)
    except (TypeError, ValueError):
        raise _state_error(name, f"an integer from 0 to {most}", state.get(name)) from None


def _state_error(name: str, expected: str, found: object) -> StateMismatch:
    return StateMismatch(
        Where(),
        expected=f"{expected} as {name!r} of the state",
        found=repr(found),
        hint=HINTS.get(name, OTHER_LOADER),
    )

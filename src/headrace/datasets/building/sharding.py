"""How many files a split lies in, and which examples each of them holds. The rules are those of TFDS."""

from __future__ import annotations

from headrace.errors import UnsupportedData, Where

__all__ = ["num_shards_for", "shard_lengths"]

LEAST_BYTES = 64 << 20
MOST_BYTES = 1 << 30
FRAME_BYTES = 16
"""What TFRecord adds to each payload."""
MANY = 1024
_USUAL = (512, 256, 128, 64, 32, 16, 8, 4, 2)


def num_shards_for(size: int, count: int) -> int:
    """How many files suit a split: of 64 MiB to 1 GiB each, in powers of two up to 1024, then in multiples of that.

    Args:
        size: Bytes of all payloads.
        count: How many there are.
    """
    size += count * FRAME_BYTES
    most, least = size // LEAST_BYTES, size // MOST_BYTES
    if least <= MANY <= most and count >= MANY:
        return MANY
    if least > MANY:
        wanted = max(2, -(-least // MANY)) * MANY
        return wanted if count >= wanted else max(1, count)
    return next((n for n in _USUAL if least <= n <= most and count >= n), 1)


def shard_lengths(count: int, shards: int) -> list[int]:
    """How many examples each file holds.

    Raises:
        UnsupportedData: There are fewer examples than files.
    """
    if count < shards:
        raise UnsupportedData(
            Where(), expected=f"at least one example for each of {shards} files", found=f"{count} examples"
        )
    ends = [round(count * number / shards) for number in range(1, shards + 1)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]

"""A slow, plain JPEG writer for arbitrary coefficients, including those that no photo has."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

__all__ = ["extreme_jpeg", "write_jpeg"]

Block = dict[int, int]
"""Coefficients that are not 0, by their place in the zigzag order; place 0 holds the difference to the mean before."""


def write_jpeg(
    height: int,
    width: int,
    sampling: Sequence[tuple[int, int]],
    steps: Sequence[Sequence[int]],
    units: Sequence[Sequence[Block]],
    *,
    restart: int = 0,
    short_codes: bool = False,
) -> bytes:
    """A sequential JPEG of one scan.

    Args:
        height, width: In pixels.
        sampling: For each component, how many blocks of a unit are side by side, and one below the other.
        steps: For each component, its 64 quantization steps in zigzag order.
        units: For each unit, its blocks in the order of the scan.
        restart: Units between restart markers.
        short_codes: Give frequent symbols codes of 1 to 15 bits, so that some exceed a decoder's lookup width.
    """
    dc_codes = _codes(list(range(12)), short_codes)
    ac_codes = _codes(sorted({run << 4 | size for run in range(16) for size in range(11)}), short_codes)
    parts = [b"\xff\xd8", _segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")]
    parts += [_segment(0xDB, bytes([number, *table])) for number, table in enumerate(steps)]
    components = b"".join(bytes([n + 1, across << 4 | down, n]) for n, (across, down) in enumerate(sampling))
    parts.append(_segment(0xC0, struct.pack(">BHHB", 8, height, width, len(sampling)) + components))
    for kind, codes in ((0, dc_codes), (1, ac_codes)):
        counts = [sum(length == wanted for _, length in codes.values()) for wanted in range(1, 17)]
        parts.append(_segment(0xC4, bytes([kind << 4, *counts, *codes])))
    if restart:
        parts.append(_segment(0xDD, struct.pack(">H", restart)))
    chosen = b"".join(bytes([n + 1, 0]) for n in range(len(sampling)))
    parts.append(_segment(0xDA, bytes([len(sampling)]) + chosen + b"\0\x3f\0"))
    stretch = restart or len(units)
    for number, start in enumerate(range(0, len(units), stretch)):
        if number:
            parts.append(bytes([0xFF, 0xD0 + (number - 1) % 8]))
        parts.append(
            _bits(
                [
                    bits
                    for unit in units[start : start + stretch]
                    for block in unit
                    for bits in _symbols(block, dc_codes, ac_codes)
                ]
            )
        )
    return b"".join([*parts, b"\xff\xd9"])


def _segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


def _codes(symbols: list[int], short: bool) -> dict[int, tuple[int, int]]:
    """Code and its length for each symbol, in the order of the codes: all of 8 bits, or from 2 bits to 16."""
    lengths = [8] * len(symbols)
    if short:
        lengths = [min(2 + number // 2, 16) for number in range(len(symbols))]
        lengths = [length if length < 9 else 16 for length in lengths]
    codes, code = {}, 0
    for before, symbol, length in zip([lengths[0], *lengths], symbols, lengths, strict=False):
        code <<= length - before
        codes[symbol] = code, length
        code += 1
    return codes


def _symbols(block: Block, dc: dict[int, tuple[int, int]], ac: dict[int, tuple[int, int]]) -> list[tuple[int, int]]:
    """Values and their numbers of bits."""
    out = _coefficient(dc, 0, block.get(0, 0))
    last = 0
    for place in sorted(block.keys() - {0}):
        run = place - last - 1
        out += [ac[0xF0]] * (run // 16)
        out += _coefficient(ac, run % 16, block[place])
        last = place
    return out if last == 63 else [*out, ac[0]]


def _coefficient(codes: dict[int, tuple[int, int]], run: int, value: int) -> list[tuple[int, int]]:
    size = abs(value).bit_length()
    return [codes[run << 4 | size], (value if value > 0 else value + (1 << size) - 1, size)]


def _bits(pieces: list[tuple[int, int]]) -> bytes:
    total = length = 0
    for value, size in pieces:
        total, length = total << size | value, length + size
    unused = -length % 8
    return ((total << unused | (1 << unused) - 1).to_bytes((length + unused) // 8, "big")).replace(b"\xff", b"\xff\0")


def extreme_jpeg(seed: int) -> bytes:
    """One with extreme coefficients and steps at places chosen by the seed."""
    rng = random.Random(seed)
    sampling = rng.choice([[(1, 1)], [(1, 1)] * 3, [(2, 1), (1, 1), (1, 1)], [(2, 2), (1, 1), (1, 1)]])
    across, down = sampling[0]
    units_across, units_down = rng.randint(1, 3), rng.randint(1, 2)
    width = units_across * across * 8 - rng.randrange(across * 8 if units_across > 1 else 3)
    height = units_down * down * 8 - rng.randrange(8)
    steps = [_steps(rng) for _ in sampling]
    places = rng.choice([range(1, 64), FIRST_ROW, FIRST_COLUMN, range(1, 4), rng.sample(range(1, 64), 5)])
    most = rng.choice([1, 3, 7, 10])
    often = rng.choice([0.05, 0.3, 1])
    blocks = sum(a * d for a, d in sampling)
    units = [[_block(rng, places, most, often) for _ in range(blocks)] for _ in range(units_across * units_down)]
    return write_jpeg(
        height, width, sampling, steps, units, restart=rng.choice([0, 0, 1, 2]), short_codes=rng.random() < 0.3
    )


FIRST_ROW = (1, 5, 6, 14, 15, 27, 28)  # of a block, by place in the zigzag order
FIRST_COLUMN = (2, 3, 9, 10, 20, 21, 35)


def _steps(rng: random.Random) -> list[int]:
    kind = rng.randrange(4)
    if kind == 0:
        return [rng.randint(1, 255) for _ in range(64)]
    if kind == 1:
        return [rng.choice([1, 8, 9, 16, 32, 33, 64, 128, 255]) for _ in range(64)]
    return [1 if kind == 2 else 255] * 64


def _block(rng: random.Random, places: Sequence[int], most: int, often: float) -> Block:
    kind = rng.randrange(6)
    sizes = rng.choice([most, 11])
    block = {0: _value(rng, sizes)}
    if kind:
        block |= {place: _value(rng, most) for place in places if rng.random() < often}
    return {place: value for place, value in block.items() if value}


def _value(rng: random.Random, size: int) -> int:
    largest = (1 << size) - 1
    return rng.choice([largest, -largest, rng.randint(-largest, largest), 0])

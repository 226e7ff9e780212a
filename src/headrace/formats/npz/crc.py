"""The CRC-32 of two stretches joined, without going through them again."""

from __future__ import annotations

__all__ = ["joined_crc"]

POLYNOMIAL = 0xEDB88320
CRC_BITS = 32


def joined_crc(first: int, second: int, second_bytes: int) -> int:
    """The CRC-32 of two stretches joined, from those of each: the first moved on by as many zeros as the second is long."""
    return _times(_power_of_x(8 * second_bytes), first) ^ second


def _power_of_x(exponent: int) -> int:
    """``x ** exponent`` modulo the polynomial of CRC-32; the highest bit is the factor of 1."""
    result, square = 1 << (CRC_BITS - 1), 1 << (CRC_BITS - 2)
    while exponent:
        if exponent & 1:
            result = _times(result, square)
        square = _times(square, square)
        exponent >>= 1
    return result


def _times(a: int, b: int) -> int:
    """Two polynomials multiplied modulo that of CRC-32."""
    product = 0
    for bit in range(CRC_BITS - 1, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (POLYNOMIAL if b & 1 else 0)
    return product

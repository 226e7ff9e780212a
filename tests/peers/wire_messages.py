"""Random protobuf messages, straight on the wire, for what takes messages apart."""


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def tag(field, wire):
    return varint(field << 3 | wire)


def message(rng, depth=3):
    """Up to eight fields of all kinds; numbers from 1 to 20,000, values of one to ten bytes."""
    return b"".join(field(rng, depth) for _ in range(rng.randrange(8)))


def field(rng, depth):
    number = rng.choice([1, 2, 3, 15, 16, 2047, 20_000])
    kind = rng.randrange(6 if depth else 4)
    if kind == 0:
        return tag(number, 0) + varint(rng.getrandbits(rng.choice([1, 4, 7, 8, 14, 33, 64])))
    if kind == 1:
        return tag(number, 1) + rng.randbytes(8)
    if kind == 2:
        return tag(number, 5) + rng.randbytes(4)
    if kind == 3:
        text = rng.choice([b"", b"a", b"word", rng.randbytes(rng.randrange(300))])
        return tag(number, 2) + varint(len(text)) + text
    inner = message(rng, depth - 1)
    if kind == 4:
        return tag(number, 2) + varint(len(inner)) + inner
    return tag(number, 3) + inner + tag(number, 4)

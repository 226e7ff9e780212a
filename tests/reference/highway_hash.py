"""HighwayHash-64 with the key of Riegeli files, word by word as in the paper."""

import struct

M64, M32 = (1 << 64) - 1, (1 << 32) - 1
MUL0 = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
MUL1 = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)
KEY = struct.unpack("<4Q", b"Riegeli/records\n" * 2)
MERGE = ((3, 12, 2, 5, 14, 1, 15, 0), (11, 4, 10, 13, 9, 6, 8, 7))


def swapped(word):
    return (word << 32 | word >> 32) & M64


def merged(low, high):
    both = struct.pack("<2Q", low, high)
    return [int.from_bytes(bytes(both[i] for i in order), "little") for order in MERGE]


def update(state, packet):
    v0, v1, mul0, mul1 = state
    for i in range(4):
        v1[i] = (v1[i] + mul0[i] + packet[i]) & M64
        mul0[i] ^= (v1[i] & M32) * (v0[i] >> 32)
        v0[i] = (v0[i] + mul1[i]) & M64
        mul1[i] ^= (v0[i] & M32) * (v1[i] >> 32)
    for to, source in ((v0, v1), (v1, v0)):
        for pair in (0, 2):
            for i, word in enumerate(merged(source[pair], source[pair + 1])):
                to[pair + i] = (to[pair + i] + word) & M64


def highway_hash(data):
    v0 = [m ^ k for m, k in zip(MUL0, KEY)]
    v1 = [m ^ swapped(k) for m, k in zip(MUL1, KEY)]
    state = v0, v1, list(MUL0), list(MUL1)
    whole = len(data) // 32 * 32
    for at in range(0, whole, 32):
        update(state, struct.unpack_from("<4Q", data, at))
    if n := len(data) - whole:
        tail = data[whole:]
        for i in range(4):
            v0[i] = (v0[i] + (n << 32) + n) & M64
            halves = [(h << n | h >> (32 - n)) & M32 for h in (v1[i] & M32, v1[i] >> 32)]
            v1[i] = halves[0] | halves[1] << 32
        packet = bytearray(tail[: n & ~3]).ljust(32, b"\0")
        rest = tail[n & ~3 :]
        if n >= 16:
            packet[28:] = tail[-4:]
        elif rest:
            packet[16:19] = rest[0], rest[len(rest) >> 1], rest[-1]
        update(state, struct.unpack("<4Q", packet))
    for _ in range(4):
        update(state, [swapped(v0[i]) for i in (2, 3, 0, 1)])
    return (v0[0] + v1[0] + state[2][0] + state[3][0]) & M64

"""The directory of a ZIP file: its members and their offsets. Also combines CRC-32s.

Source: PKWARE's APPNOTE.TXT 6.3 (sections 4.3 and 4.4: local header, central directory, ZIP64, end of central directory).
Every structure is checked against the file and its duplicate: a member's local header must match the directory, and
no two members may overlap.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from headrace.errors import CorruptFile, DataError, UnsupportedData, Where

__all__ = ["DEFLATED", "STORED", "ArrayMember", "joined_crc", "read_directory"]


STORED, DEFLATED = 0, 8
END = struct.Struct("<4s4H2IH")
END_MAGIC = b"PK\x05\x06"
LOCATOR = struct.Struct("<4sIQI")
LOCATOR_MAGIC = b"PK\x06\x07"
END64 = struct.Struct("<4sQ2H2I4Q")
END64_MAGIC = b"PK\x06\x06"
ENTRY = struct.Struct("<4s6H3I5H2I")
ENTRY_MAGIC = b"PK\x01\x02"
LOCAL = struct.Struct("<4s5H3I2H")
LOCAL_MAGIC = b"PK\x03\x04"
EXTRA = struct.Struct("<2H")
ZIP64_EXTRA = 1
MANY16, MANY32 = 0xFFFF, 0xFFFF_FFFF  # "see the ZIP64 structure"
ENCRYPTED, DESCRIPTOR, PATCHED, STRONG, UTF8, MASKED = 1, 1 << 3, 1 << 5, 1 << 6, 1 << 11, 1 << 13
METHODS = {1: "Shrink", 6: "Implode", 9: "Deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 95: "xz", 98: "PPMd"}
MOST_DEFLATED = 1032  # deflate's maximum compression ratio
CUT_OFF = "The file was cut off while it was written or copied, or it is no .npz."


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayMember:
    """One file in the archive.

    Args:
        name: As stored.
        method: :data:`STORED` or :data:`DEFLATED`.
        crc: CRC-32 of its content.
        packed_bytes: Its size in the archive.
        size: Size of its content, in bytes.
        offset: Offset of its data in the archive.
        header: Offset of its local header.
        entry: Offset of its directory entry.
    """

    name: str
    method: int
    crc: int
    packed_bytes: int
    size: int
    offset: int
    header: int
    entry: int

    @property
    def array(self) -> str:
        """The array name: without ``.npy``, as in ``np.load``."""
        return self.name.removesuffix(".npy")


@dataclass(frozen=True, slots=True)
class _Entry:
    """The directory entry of a member."""

    name: bytes
    flags: int
    method: int
    crc: int
    packed_bytes: int
    size: int
    header: int
    at: int


def read_directory(content: memoryview, path: str) -> tuple[ArrayMember, ...]:
    """The members of an archive, in directory order.

    Raises:
        CorruptFile: The structure is damaged, or two members have the same name.
        UnsupportedData: A member is encrypted or uses a compression other than deflate, or the archive is split.
    """
    directory = _Directory(content, path)
    entries = directory.entries()
    members = [directory.member(entry) for entry in entries]
    directory.check_apart(entries, members)
    names: set[str] = set()
    for member in members:
        if member.array in names:
            raise directory.corrupt(0, "every array once", f"two called {member.array!r}")
        names.add(member.array)
    return tuple(members)


class _Directory:
    def __init__(self, content: memoryview, path: str) -> None:
        self.content = content
        self.path = path
        self.begin, self.end, self.count = self._extent()

    def corrupt(self, offset: int, expected: str, found: str, hint: str = "") -> CorruptFile:
        return CorruptFile(Where(path=self.path, offset=offset), expected=expected, found=found, hint=hint)

    def _unsupported_error(self, name: str, expected: str, found: str, hint: str) -> DataError:
        return UnsupportedData(Where(path=self.path, feature=name), expected=expected, found=found, hint=hint)

    def _unpack(self, layout: struct.Struct, offset: int, magic: bytes, what: str) -> tuple[int, ...]:
        if not 0 <= offset <= len(self.content) - layout.size:
            raise self.corrupt(offset, f"{what} of {layout.size} bytes", "the end of the file before it", CUT_OFF)
        found = layout.unpack_from(self.content, offset)
        if found[0] != magic:
            raise self.corrupt(offset, f"{what}, which begins with {magic.hex(' ')}", found[0].hex(" "), CUT_OFF)
        return found[1:]

    def _extent(self) -> tuple[int, int, int]:
        """Where the directory begins and ends, and its number of members."""
        at = self._end_record()
        disk, first_disk, here, count, size, begin, _ = self._unpack(END, at, END_MAGIC, "the end of a ZIP directory")
        end = at
        if bytes(self.content[max(0, at - LOCATOR.size) :][:4]) == LOCATOR_MAGIC:
            end, (disk, first_disk, here, count, size, begin) = self._end64(at - LOCATOR.size)
        if disk or first_disk or here != count:
            raise UnsupportedData(
                Where(path=self.path), expected="an archive in one file", found="one part of several", hint=""
            )
        if begin + size != end:
            raise self.corrupt(at, f"a directory that ends at byte {end:#x}", f"one that ends at {begin + size:#x}")
        return begin, end, count

    def _end_record(self) -> int:
        """The offset of the end record, which ends the file together with its comment."""
        at = len(self.content) - END.size
        lowest = max(0, at - MANY16)
        tail = bytes(self.content[lowest:])
        while at >= lowest:
            at = tail.rfind(END_MAGIC, 0, at - lowest + len(END_MAGIC)) + lowest
            if at < lowest:
                break
            if at + END.size + END.unpack_from(self.content, at)[-1] == len(self.content):
                return at
            at -= 1
        raise self.corrupt(len(self.content), "the end of a ZIP directory", "none", CUT_OFF)

    def _end64(self, locator: int) -> tuple[int, tuple[int, ...]]:
        disk, at, _ = self._unpack(LOCATOR, locator, LOCATOR_MAGIC, "the place of the ZIP64 end")
        size, _, _, this, first, here, count, length, begin = self._unpack(END64, at, END64_MAGIC, "a ZIP64 end")
        if disk or size != END64.size - 12 + (locator - at - END64.size):
            raise self.corrupt(at, f"a ZIP64 end up to byte {locator:#x}", f"one of {size + 12} bytes")
        return at, (this, first, here, count, length, begin)

    def entries(self) -> list[_Entry]:
        found, at = [], self.begin
        for _ in range(self.count):
            if at >= self.end:
                break
            entry, at = self._entry(at)
            found.append(entry)
        if at != self.end or len(found) != self.count:
            raise self.corrupt(at, f"a directory of {self.count} members up to byte {self.end:#x}", "another")
        return found

    def _entry(self, at: int) -> tuple[_Entry, int]:
        values = self._unpack(ENTRY, at, ENTRY_MAGIC, "an entry of the directory")
        _, _, flags, method, _, _, crc, packed, size, name_bytes, extra_bytes, comment_bytes, disk, _, _, header = (
            values
        )
        stop = at + ENTRY.size + name_bytes + extra_bytes + comment_bytes
        if stop > self.end:
            raise self.corrupt(at, "an entry inside the directory", f"one that ends at byte {stop:#x}")
        name = bytes(self.content[at + ENTRY.size :][:name_bytes])
        extra = self.content[at + ENTRY.size + name_bytes :][:extra_bytes]
        wide = [value == MANY32 for value in (size, packed, header)]
        if any(wide):
            size, packed, header = self._wide(extra, at, (size, packed, header), wide)
        if disk not in (0, MANY16):
            raise self.corrupt(at, "a member in this file", f"one in file {disk}")
        return _Entry(name, flags, method, crc, packed, size, header, at), stop

    def _wide(self, extra: memoryview, at: int, values: tuple[int, ...], wide: list[bool]) -> tuple[int, ...]:
        """Replace values that did not fit 32 bits with those of the ZIP64 field, which holds only these."""
        place = 0
        while place + EXTRA.size <= len(extra):
            kind, size = EXTRA.unpack_from(extra, place)
            body = bytes(extra[place + EXTRA.size :][:size])
            if kind == ZIP64_EXTRA and len(body) == size >= 8 * sum(wide):
                numbers = iter(struct.unpack_from(f"<{sum(wide)}Q", body))
                return tuple(next(numbers) if is_wide else value for value, is_wide in zip(values, wide, strict=True))
            place += EXTRA.size + size
        raise self.corrupt(at, "a ZIP64 field with the sizes", "none")

    def member(self, entry: _Entry) -> ArrayMember:
        """The member of an entry, after checking both against the local header."""
        name = self._name(entry)
        self._check_readable(entry, name)
        at = entry.header
        values = self._unpack(LOCAL, at, LOCAL_MAGIC, f"the header of {name!r}")
        _, flags, method, _, _, crc, packed, size, name_bytes, extra_bytes = values
        offset = at + LOCAL.size + name_bytes + extra_bytes
        own = bytes(self.content[at + LOCAL.size :][:name_bytes])
        if (own, flags, method) != (entry.name, entry.flags, entry.method):
            raise self.corrupt(at, f"the header of {name!r}", "another name, method or flags than the directory's")
        if offset + entry.packed_bytes > self.begin:
            raise self.corrupt(at, f"{entry.packed_bytes} bytes of {name!r} before the directory", "fewer", CUT_OFF)
        if not flags & DESCRIPTOR:
            extra = self.content[at + LOCAL.size + name_bytes :][:extra_bytes]
            self._check_twin(entry, name, crc, (size, packed), extra)
        sizes = {"packed_bytes": entry.packed_bytes, "size": entry.size}
        return ArrayMember(name=name, method=method, crc=entry.crc, **sizes, offset=offset, header=at, entry=entry.at)

    def _check_twin(self, entry: _Entry, name: str, crc: int, sizes: tuple[int, ...], extra: memoryview) -> None:
        wide = [value == MANY32 for value in sizes]
        if any(wide):
            # In a local header, the ZIP64 field must hold both sizes.
            sizes = self._wide(extra, entry.header, (MANY32, MANY32), [True, True])
        if (crc, *sizes) != (entry.crc, entry.size, entry.packed_bytes):
            raise self.corrupt(
                entry.header, f"the CRC and sizes of {name!r} as in the directory", "others in its header"
            )

    def _name(self, entry: _Entry) -> str:
        try:
            return entry.name.decode("utf-8" if entry.flags & UTF8 else "cp437")
        except UnicodeDecodeError as error:
            raise self.corrupt(entry.header, "a name in UTF-8", entry.name.hex(" ")) from error

    def _check_readable(self, entry: _Entry, name: str) -> None:
        if entry.flags & (ENCRYPTED | STRONG | MASKED):
            raise self._unsupported_error(name, "a plain member", "an encrypted one", "Decrypt the archive first.")
        if entry.flags & PATCHED or entry.method not in (STORED, DEFLATED):
            method = "patch data" if entry.flags & PATCHED else METHODS.get(entry.method, f"method {entry.method}")
            raise self._unsupported_error(
                name, "a stored or deflated member", f"one packed by {method}", "Write it again with np.savez."
            )
        if entry.method == STORED and entry.packed_bytes != entry.size:
            raise self.corrupt(entry.header, f"{entry.size} stored bytes of {name!r}", f"{entry.packed_bytes}")
        if entry.method == DEFLATED and entry.size > MOST_DEFLATED * (entry.packed_bytes + 1):
            found = f"{entry.packed_bytes} bytes"
            raise self.corrupt(entry.header, f"a stream that can hold the {entry.size} bytes of {name!r}", found)

    def check_apart(self, entries: list[_Entry], members: list[ArrayMember]) -> None:
        """Refuse overlapping members, which could make a few kilobytes inflate to terabytes."""
        stop = 0
        for entry, member in sorted(zip(entries, members, strict=True), key=lambda pair: pair[0].header):
            if entry.header < stop:
                raise self.corrupt(entry.header, f"{member.name!r} after the previous member", "an overlap of the two")
            stop = member.offset + member.packed_bytes


POLYNOMIAL = 0xEDB88320
CRC_BITS = 32


def joined_crc(first: int, second: int, second_bytes: int) -> int:
    """The CRC-32 of two concatenated stretches, from that of each: shifts the first by the length of the second."""
    return _times(_power_of_x(8 * second_bytes), first) ^ second


def _power_of_x(exponent: int) -> int:
    """``x ** exponent`` modulo the CRC-32 polynomial; the highest bit is the coefficient of 1."""
    result, square = 1 << (CRC_BITS - 1), 1 << (CRC_BITS - 2)
    while exponent:
        if exponent & 1:
            result = _times(result, square)
        square = _times(square, square)
        exponent >>= 1
    return result


def _times(a: int, b: int) -> int:
    """The product of two polynomials modulo the CRC-32 polynomial."""
    product = 0
    for bit in range(CRC_BITS - 1, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (POLYNOMIAL if b & 1 else 0)
    return product

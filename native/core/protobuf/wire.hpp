#pragma once

#include "core/base/cursor.hpp"

namespace headrace::proto {

/// How a field's value is laid out on the protobuf wire.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, group = 3, end_group = 4, fixed32 = 5 };

/// A field's number and layout.
struct Tag {
    std::uint32_t field;
    Wire wire;
};

/// The next tag. Throws FormatError{wire} for field 0, a number over 2^29 - 1 or an unknown layout.
[[nodiscard]] inline Tag read_tag(Cursor& cursor) {
    const std::uint64_t offset = cursor.offset();
    const std::uint64_t raw = cursor.varint();
    const std::uint64_t wire = raw & 7;
    if (raw > UINT32_MAX || raw < 8 || wire > 5) throw FormatError(Fault::wire, offset);
    return {static_cast<std::uint32_t>(raw >> 3), static_cast<Wire>(wire)};
}

/// The bytes of a length-delimited value.
[[nodiscard]] inline Bytes read_bytes(Cursor& cursor) {
    const std::uint64_t length = cursor.varint();
    return cursor.take(length);
}

/// Passes over the value that follows `tag`, groups included.
void skip_value(Cursor& cursor, Tag tag);

/// How many bytes a varint takes.
[[nodiscard]] constexpr std::size_t varint_size(std::uint64_t value) noexcept {
    return (static_cast<std::size_t>(std::bit_width(value | 1)) * 9 + 64) / 64;
}

/// Writes a varint and returns where it ends. The caller has made room.
inline std::byte* write_varint(std::byte* to, std::uint64_t value) noexcept {
    while (value >= 0x80) {
        *to++ = static_cast<std::byte>(value | 0x80);
        value >>= 7;
    }
    *to++ = static_cast<std::byte>(value);
    return to;
}

/// The same where `end` is the end of the room: numbers of two to eight bytes take no branch on their size.
inline std::byte* write_varint(std::byte* to, const std::byte* end, std::uint64_t value) noexcept {
    if (value < 0x80 || value >= std::uint64_t{1} << 56 || end - to < 8) return write_varint(to, value);
    const std::size_t size = varint_size(value);
    std::uint64_t bytes = (value & 0x0FFFFFFF) | (value << 4 & 0x0FFFFFFF00000000);
    bytes = (bytes & 0x00003FFF00003FFF) | (bytes << 2 & 0x3FFF00003FFF0000);
    bytes = (bytes & 0x007F007F007F007F) | (bytes << 1 & 0x7F007F007F007F00);
    const std::uint64_t more = 0x8080808080808080 & ((std::uint64_t{1} << 8 * (size - 1)) - 1);
    store_le(to, bytes | more);
    return to + size;
}

/// The same where what is written was measured before, from memory that may be another's: there is room up to `end` and
/// no further. Throws FormatError{changed} where the value takes more.
inline std::byte* write_measured_varint(std::byte* to, const std::byte* end, std::uint64_t value) {
    constexpr std::ptrdiff_t most = 10;
    if (end - to < most && varint_size(value) > static_cast<std::size_t>(end - to))
        throw FormatError(Fault::changed, 0);
    return write_varint(to, end, value);
}

/// Writes the tag of a length-delimited field (number below 16) and its length.
inline std::byte* write_head(std::byte* to, std::uint32_t field, std::uint64_t length) noexcept {
    *to++ = static_cast<std::byte>(field << 3 | static_cast<std::uint32_t>(Wire::bytes));
    return write_varint(to, length);
}

/// Size of a length-delimited field (number below 16) with `length` bytes in it.
[[nodiscard]] constexpr std::size_t field_size(std::size_t length) noexcept { return 1 + varint_size(length) + length; }

} // namespace headrace::proto

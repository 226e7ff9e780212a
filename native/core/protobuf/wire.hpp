#pragma once

#include "core/base/cursor.hpp"

namespace headrace::proto {

/// The wire type of a protobuf field.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, group = 3, end_group = 4, fixed32 = 5 };

/// A field's number and wire type.
struct Tag {
    std::uint32_t field;
    Wire wire;
};

/// Reads the next tag. Throws FormatError{wire} for field 0, a number over 2^29 - 1 or an unknown wire type.
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

/// Removes the length at the start of `bytes` if it is the number of bytes after it, as for the last field of a
/// message.
[[nodiscard]] inline bool strip_length(Bytes& bytes) noexcept {
    if (!bytes.empty() && bytes.size() <= 0x80 && std::to_integer<std::size_t>(bytes[0]) == bytes.size() - 1) {
        bytes = bytes.subspan(1);
        return true;
    }
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < bytes.size() && i < 9; ++i) {
        const auto byte = std::to_integer<std::uint64_t>(bytes[i]);
        length |= (byte & 0x7F) << 7 * i;
        if (byte >= 0x80) continue;
        if (length != bytes.size() - i - 1) return false;
        bytes = bytes.subspan(i + 1);
        return true;
    }
    return false;
}

/// Moves a length and the bytes that it counts from the start of `bytes` to `counted`, without the length. False, with
/// nothing done, for a length past the end or of ten bytes.
[[nodiscard]] inline bool take_counted(Bytes& bytes, Bytes& counted) noexcept {
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < bytes.size() && i < 9; ++i) {
        const auto byte = std::to_integer<std::uint64_t>(bytes[i]);
        length |= (byte & 0x7F) << 7 * i;
        if (byte >= 0x80) continue;
        if (length > bytes.size() - i - 1) return false;
        counted = bytes.subspan(i + 1, length);
        bytes = bytes.subspan(i + 1 + length);
        return true;
    }
    return false;
}

/// Skips the value that follows `tag`, groups included.
void skip_value(Cursor& cursor, Tag tag);

/// The size of a varint in bytes.
[[nodiscard]] constexpr std::size_t varint_size(std::uint64_t value) noexcept {
    return (static_cast<std::size_t>(std::bit_width(value | 1)) * 9 + 64) / 64;
}

/// Writes a varint and returns its end. The caller has made room.
inline std::byte* write_varint(std::byte* to, std::uint64_t value) noexcept {
    while (value >= 0x80) {
        *to++ = static_cast<std::byte>(value | 0x80);
        value >>= 7;
    }
    *to++ = static_cast<std::byte>(value);
    return to;
}

/// The same, without branching on sizes of two to eight bytes. Overwrites the eight bytes from `to` on.
inline std::byte* write_varint_in_room(std::byte* to, std::uint64_t value) noexcept {
    if (value < 0x80 || value >= std::uint64_t{1} << 56) return write_varint(to, value);
    const std::size_t size = varint_size(value);
    std::uint64_t bytes = (value & 0x0FFFFFFF) | (value << 4 & 0x0FFFFFFF00000000);
    bytes = (bytes & 0x00003FFF00003FFF) | (bytes << 2 & 0x3FFF00003FFF0000);
    bytes = (bytes & 0x007F007F007F007F) | (bytes << 1 & 0x7F007F007F007F00);
    const std::uint64_t more = 0x8080808080808080 & ((std::uint64_t{1} << 8 * (size - 1)) - 1);
    store_le(to, bytes | more);
    return to + size;
}

/// Writes numbers [first, last) from memory that others may change. They were measured before and have the bytes up to
/// `end`. The bytes from `end` to `room` are written later, so this may overwrite them; only the last numbers of a
/// block then need a check each. Throws FormatError{changed} if the numbers now take more or fewer bytes. `write`:
/// write_varint if the sizes of the numbers are alike, else write_varint_in_room.
template <auto write, typename At>
std::byte* write_measured(std::byte* to, const std::byte* end, const std::byte* room, std::size_t first,
                          std::size_t last, const At& number_at) {
    constexpr std::size_t most = 10; // bytes of a number
    if ((last - first) * most <= static_cast<std::size_t>(room - to)) [[likely]] {
        for (; first != last; ++first) to = write(to, number_at(first));
    } else {
        for (; first != last; ++first) {
            const std::uint64_t number = number_at(first);
            if (varint_size(number) > static_cast<std::size_t>(end - to)) throw FormatError(Fault::changed, 0);
            to = write_varint(to, number);
        }
    }
    if (to != end) throw FormatError(Fault::changed, 0);
    return to;
}

/// Writes the tag of a length-delimited field (number below 16) and its length.
inline std::byte* write_head(std::byte* to, std::uint32_t field, std::uint64_t length) noexcept {
    *to++ = static_cast<std::byte>(field << 3 | static_cast<std::uint32_t>(Wire::bytes));
    return write_varint(to, length);
}

/// Size of a length-delimited field (number below 16) with `length` bytes in it.
[[nodiscard]] constexpr std::size_t field_size(std::size_t length) noexcept { return 1 + varint_size(length) + length; }

} // namespace headrace::proto

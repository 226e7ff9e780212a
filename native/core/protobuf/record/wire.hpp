#pragma once

#include <vector>

#include "core/protobuf/wire.hpp"

namespace headrace::sagemaker {

/// SageMaker's Record (package aialgs.data, proto2) on the wire:
///   Record    1: map<string, Value> features   2: map<string, Value> label
///             3: uid   4: metadata   5: configuration (strings)
///   Value     oneof 2: Float32Tensor  3: Float64Tensor  7: Int32Tensor  9: Bytes
///   tensors   1: repeated values (float, double, int32)   2: repeated uint64 keys   3: repeated uint64 shape
///   Bytes     1: repeated bytes value   2: string content_type
/// protobuf's rules apply: fields come in any order, numbers packed or not and in several pieces. Unknown fields are
/// skipped. The last of several entries with one key replaces the others. The last kind of a oneof wins; the same kind
/// again is merged.

/// Which tensor a Value holds. Errors carry these numbers.
enum class Kind : std::uint8_t { none = 0, float32 = 1, float64 = 2, int32 = 3, bytes = 4 };
inline constexpr std::size_t kinds = 5;

/// A place in a Record, by field number.
enum class Place : std::uint8_t { feature = 1, label = 2, uid = 3, metadata = 4, configuration = 5 };

/// Size in memory of a number of a kind; 0 for bytes.
[[nodiscard]] constexpr std::size_t size_of(Kind kind) noexcept {
    return kind == Kind::float64 ? 8 : kind == Kind::float32 || kind == Kind::int32 ? 4 : 0;
}

/// The field of Value for a kind.
[[nodiscard]] constexpr std::uint32_t field_of(Kind kind) noexcept {
    constexpr std::uint32_t fields[kinds] = {0, 2, 3, 7, 9};
    return fields[static_cast<std::size_t>(kind)];
}

/// Encoded pieces of a repeated number, each as in a packed field. Nearly always one.
using Pieces = std::vector<Bytes>;

/// A Value, still encoded.
struct Tensor {
    Kind kind = Kind::none;
    Pieces values; ///< For kind bytes: the values themselves.
    Pieces keys;
    Pieces shape;
    Bytes content_type; ///< For kind bytes.

    void clear() noexcept;
};

/// Merges an encoded Value into `tensor`. `base` is its offset in the payload, for errors.
void merge_value(Bytes value, std::uint64_t base, Tensor& tensor);

/// An entry of one of the two maps: its key and its encoded Values. Normally one Value; none if omitted, several in
/// unusual encodings.
struct Entry {
    Bytes key;
    std::vector<std::pair<Bytes, std::uint64_t>> values; ///< With their offsets in the payload.
};

/// Reads a map entry.
void read_entry(Bytes bytes, std::uint64_t base, Entry& entry);

/// Walks the top level of a payload: calls `on_entry(place, entry bytes, offset)` for features and labels, and
/// `on_text(place, bytes)` for strings, in wire order.
template <typename OnEntry, typename OnText> void walk(Bytes payload, OnEntry&& on_entry, OnText&& on_text) {
    Cursor cursor(payload);
    while (!cursor.done()) {
        const proto::Tag tag = proto::read_tag(cursor);
        if (tag.wire != proto::Wire::bytes || tag.field > 5) {
            proto::skip_value(cursor, tag);
            continue;
        }
        const Bytes bytes = proto::read_bytes(cursor);
        const auto place = static_cast<Place>(tag.field);
        if (tag.field <= 2) {
            on_entry(place, bytes, cursor.offset() - bytes.size());
        } else {
            on_text(place, bytes);
        }
    }
}

/// Whether a payload is a Record down to the last byte: every entry, every tensor, every number.
[[nodiscard]] bool is_record(Bytes payload);

/// The number of varints in the bytes. Throws FormatError{wire} if the last one does not end.
[[nodiscard]] std::size_t count_varints(Bytes packed);

/// The number of numbers (for kind bytes: of values) in a tensor. Throws FormatError{wire} for a piece that ends within
/// one.
[[nodiscard]] std::size_t count_values(const Tensor& tensor);

/// The number of varints in all pieces.
[[nodiscard]] std::size_t count_varints(const Pieces& pieces);

/// Calls `on_number(uint64)` for every varint in the pieces. Throws FormatError{wire}.
template <typename OnNumber> void each_varint(const Pieces& pieces, OnNumber&& on_number);

/// Copies every number of a tensor to `to`, which has room for `count_values` of them. Throws FormatError{changed} if
/// their number has changed.
void copy_values(const Tensor& tensor, std::span<std::byte> to);

/// The product of the axes in `shape`, at most UINT64_MAX.
[[nodiscard]] std::uint64_t elements(std::span<const std::uint64_t> shape) noexcept;

/// Reads the shape written with a tensor; false if there is none.
bool read_shape(const Tensor& tensor, std::vector<std::uint64_t>& shape);

/// Concatenates the low seven bits of each byte.
[[nodiscard]] inline std::uint64_t join_sevens(std::uint64_t word) noexcept {
    word &= 0x7F7F7F7F7F7F7F7F;
    word = (word & 0x7F007F007F007F00) >> 1 | (word & 0x007F007F007F007F);
    word = (word & 0x3FFF00003FFF0000) >> 2 | (word & 0x00003FFF00003FFF);
    return (word & 0x0FFFFFFF00000000) >> 4 | (word & 0x000000000FFFFFFF);
}

/// Takes the next numbers if they have equal lengths: eight of one byte, or four of two or three bytes, as in long
/// stretches of sorted keys. Fast, because it need not search for the start of each number. Otherwise takes nothing and
/// returns false. Requires 12 bytes.
template <typename OnNumber> bool take_even_varints(Cursor& cursor, OnNumber&& on_number) {
    const auto word = load_le<std::uint64_t>(cursor.position());
    const std::uint64_t marks = word & 0x8080808080808080;
    if (marks == 0x8080008080008080) {
        const auto rest = load_le<std::uint32_t>(cursor.position() + sizeof word);
        if ((rest & 0x80808080) != 0x00808000) return false;
        const std::uint64_t four[] = {word, word >> 24, word >> 48 | static_cast<std::uint64_t>(rest) << 16, rest >> 8};
        for (const std::uint64_t bytes : four)
            on_number((bytes & 0x7F) | (bytes >> 1 & 0x3F80) | (bytes >> 2 & 0x1FC000));
        cursor.skip(12);
        return true;
    }
    if (marks == 0x0080008000800080) {
        const std::uint64_t four = (word & 0x007F007F007F007F) | (word >> 1 & 0x3F803F803F803F80);
        for (unsigned shift = 0; shift < 64; shift += 16) on_number(four >> shift & 0x3FFF);
        cursor.skip(sizeof word);
        return true;
    }
    if (marks != 0) return false;
    for (unsigned shift = 0; shift < 64; shift += 8) on_number(word >> shift & 0x7F);
    cursor.skip(sizeof word);
    return true;
}

/// Takes one number, or two if both end within the next eight bytes: finding the start of the next number is the slow
/// part. Requires eight bytes.
template <typename OnNumber> void take_two_varints(Cursor& cursor, OnNumber&& on_number) {
    const auto word = load_le<std::uint64_t>(cursor.position());
    const std::uint64_t ends = ~word & 0x8080808080808080; // The last byte of a number has its high bit clear.
    const std::uint64_t later = ends & (ends - 1);
    if (later == 0) {
        on_number(cursor.varint());
        return;
    }
    on_number(join_sevens(word & (ends ^ (ends - 1))));
    const unsigned first_bits = static_cast<unsigned>(std::countr_zero(ends)) + 1;
    on_number(join_sevens((word & (later ^ (later - 1))) >> first_bits));
    cursor.skip((static_cast<unsigned>(std::countr_zero(later)) + 1) / 8);
}

template <typename OnNumber> void each_varint(const Pieces& pieces, OnNumber&& on_number) {
    constexpr std::size_t eight = sizeof(std::uint64_t);
    for (const Bytes piece : pieces) {
        Cursor cursor(piece);
        // Each time a run of equal lengths ends, wait longer before trying the next: with numbers in random order, the
        // processor would keep mispredicting.
        std::size_t patience = 1;
        while (cursor.remaining() >= eight) {
            while (cursor.remaining() >= 12 && take_even_varints(cursor, on_number)) {}
            patience *= 4;
            for (std::size_t i = 0; i < patience && cursor.remaining() >= eight; ++i)
                take_two_varints(cursor, on_number);
        }
        while (!cursor.done()) on_number(cursor.varint());
    }
}

} // namespace headrace::sagemaker

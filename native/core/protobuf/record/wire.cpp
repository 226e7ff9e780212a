#include "core/protobuf/record/wire.hpp"

namespace headrace::sagemaker {
namespace {

using proto::read_bytes;
using proto::read_tag;
using proto::skip_value;
using proto::Tag;
using proto::Wire;

Kind kind_in(std::uint32_t field) noexcept {
    switch (field) {
    case 2: return Kind::float32;
    case 3: return Kind::float64;
    case 7: return Kind::int32;
    case 9: return Kind::bytes;
    default: return Kind::none;
    }
}

/// The wire type of single numbers of a kind.
Wire wire_of(Kind kind) noexcept {
    return kind == Kind::float32 ? Wire::fixed32 : kind == Kind::float64 ? Wire::fixed64 : Wire::varint;
}

/// A single number, as the bytes that it would have in a packed field.
Bytes single(Cursor& cursor, Tag tag) {
    const std::byte* const begin = cursor.position();
    skip_value(cursor, tag);
    return {begin, cursor.position()};
}

void merge_numbers(Cursor& cursor, Tensor& tensor) {
    const Wire one_value = wire_of(tensor.kind);
    while (!cursor.done()) {
        const Tag tag = read_tag(cursor);
        if (tag.field > 3 || (tag.wire != Wire::bytes && tag.wire != (tag.field == 1 ? one_value : Wire::varint))) {
            skip_value(cursor, tag);
            continue;
        }
        Pieces& pieces = tag.field == 1 ? tensor.values : tag.field == 2 ? tensor.keys : tensor.shape;
        const Bytes piece = tag.wire == Wire::bytes ? read_bytes(cursor) : single(cursor, tag);
        if (!piece.empty()) pieces.push_back(piece);
    }
}

void merge_bytes(Cursor& cursor, Tensor& tensor) {
    while (!cursor.done()) {
        const Tag tag = read_tag(cursor);
        if (tag.wire != Wire::bytes || tag.field > 2) {
            skip_value(cursor, tag);
        } else if (tag.field == 1) {
            tensor.values.push_back(read_bytes(cursor));
        } else {
            tensor.content_type = read_bytes(cursor);
        }
    }
}

void check_numbers(const Tensor& tensor) {
    const auto ignore = [](std::uint64_t) {};
    if (tensor.kind == Kind::int32) {
        each_varint(tensor.values, ignore);
    } else {
        (void)count_values(tensor);
    }
    each_varint(tensor.keys, ignore);
    each_varint(tensor.shape, ignore);
}

} // namespace

void Tensor::clear() noexcept {
    kind = Kind::none;
    values.clear();
    keys.clear();
    shape.clear();
    content_type = {};
}

void merge_value(Bytes value, std::uint64_t base, Tensor& tensor) {
    Cursor cursor(value, base);
    while (!cursor.done()) {
        const Tag tag = read_tag(cursor);
        const Kind kind = tag.wire == Wire::bytes ? kind_in(tag.field) : Kind::none;
        if (kind == Kind::none) {
            skip_value(cursor, tag);
            continue;
        }
        if (kind != tensor.kind) tensor.clear();
        tensor.kind = kind;
        const Bytes message = read_bytes(cursor);
        Cursor inner(message, cursor.offset() - message.size());
        if (kind == Kind::bytes) {
            merge_bytes(inner, tensor);
        } else {
            merge_numbers(inner, tensor);
        }
    }
}

void read_entry(Bytes bytes, std::uint64_t base, Entry& entry) {
    entry.key = {};
    entry.values.clear();
    Cursor cursor(bytes, base);
    while (!cursor.done()) {
        const Tag tag = read_tag(cursor);
        if (tag.wire != Wire::bytes || tag.field > 2) {
            skip_value(cursor, tag);
            continue;
        }
        const Bytes part = read_bytes(cursor);
        if (tag.field == 1) {
            entry.key = part;
        } else {
            entry.values.emplace_back(part, cursor.offset() - part.size());
        }
    }
}

bool is_record(Bytes payload) {
    try {
        Entry entry;
        Tensor tensor;
        const auto on_entry = [&](Place, Bytes bytes, std::uint64_t offset) {
            read_entry(bytes, offset, entry);
            tensor.clear();
            for (const auto& [value, at] : entry.values) merge_value(value, at, tensor);
            check_numbers(tensor);
        };
        walk(payload, on_entry, [](Place, Bytes) {});
        return true;
    } catch (const FormatError&) {
        return false;
    }
}

std::size_t count_varints(Bytes packed) {
    std::size_t count = 0;
    for (const std::byte byte : packed) count += std::to_integer<unsigned>(byte) < 0x80;
    if (!packed.empty() && std::to_integer<unsigned>(packed.back()) >= 0x80) throw FormatError(Fault::wire, 0);
    return count;
}

std::size_t count_varints(const Pieces& pieces) {
    std::size_t count = 0;
    for (const Bytes piece : pieces) count += count_varints(piece);
    return count;
}

std::size_t count_values(const Tensor& tensor) {
    if (tensor.kind == Kind::none || tensor.kind == Kind::bytes) return tensor.values.size();
    if (tensor.kind == Kind::int32) return count_varints(tensor.values);
    std::size_t size = 0;
    const std::size_t item = size_of(tensor.kind); // a power of two
    for (const Bytes piece : tensor.values) {
        if ((piece.size() & (item - 1)) != 0) throw FormatError(Fault::wire, 0);
        size += piece.size();
    }
    return size >> std::countr_zero(item);
}

namespace {

// Out of line, to keep the callers small.
#if defined(__GNUC__) || defined(__clang__)
[[gnu::noinline, gnu::cold]]
#endif
FormatError changed() {
    return {Fault::changed, 0};
}

} // namespace

void copy_values(const Tensor& tensor, std::span<std::byte> to) {
    std::byte* at = to.data();
    const std::byte* const end = at + to.size();
    if (tensor.kind == Kind::int32) {
        each_varint(tensor.values,
                    [&](std::uint64_t number) { // protobuf keeps the lower half of a number that is too large.
                        if (at == end) [[unlikely]]
                            throw changed();
                        store_le(at, static_cast<std::uint32_t>(number));
                        at += sizeof(std::uint32_t);
                    });
    } else {
        for (const Bytes piece : tensor.values) {
            if (piece.size() > static_cast<std::size_t>(end - at)) throw changed();
            std::memcpy(at, piece.data(), piece.size());
            at += piece.size();
        }
    }
    if (at != end) throw changed();
}

std::uint64_t elements(std::span<const std::uint64_t> shape) noexcept {
    std::uint64_t product = 1;
    bool overflow = false;
    for (const std::uint64_t length : shape) {
        if (length == 0) return 0;
        overflow = overflow || product > UINT64_MAX / length;
        product *= length;
    }
    return overflow ? UINT64_MAX : product;
}

bool read_shape(const Tensor& tensor, std::vector<std::uint64_t>& shape) {
    shape.clear();
    each_varint(tensor.shape, [&](std::uint64_t length) { shape.push_back(length); });
    return !shape.empty();
}

} // namespace headrace::sagemaker

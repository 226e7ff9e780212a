#include "core/parquet/thrift.hpp"

#include <limits>

namespace headrace::parquet {
namespace {

constexpr int deepest = 32;
constexpr auto most_elements_in_head = 14; // more follow as a varint

} // namespace

ThriftField ThriftReader::next(const ThriftField& before) {
    const std::uint64_t offset = cursor_.offset();
    const auto head = cursor_.le<std::uint8_t>();
    if (head == 0) return {};
    const auto type = static_cast<ThriftType>(head & 15);
    if (type == ThriftType::stop || type > ThriftType::structure) throw FormatError(Fault::wire, offset);
    const std::int64_t number = head < 16 ? integer() : std::int64_t{before.number} + (head >> 4);
    using Limits = std::numeric_limits<std::int16_t>;
    if (number < Limits::min() || number > Limits::max()) throw FormatError(Fault::wire, offset);
    return {static_cast<std::int32_t>(number), type};
}

std::int64_t ThriftReader::integer() {
    const std::uint64_t value = cursor_.varint();
    return static_cast<std::int64_t>(value >> 1 ^ (~(value & 1) + 1)); // zigzag: the sign is the lowest bit
}

Bytes ThriftReader::binary() { return cursor_.take(cursor_.varint()); }

ThriftReader::Elements ThriftReader::elements() {
    const std::uint64_t offset = cursor_.offset();
    const auto head = cursor_.le<std::uint8_t>();
    const Elements found{static_cast<ThriftType>(head & 15),
                         head >> 4 > most_elements_in_head ? cursor_.varint() : std::uint64_t{head} >> 4};
    if (found.type > ThriftType::structure || (found.type == ThriftType::stop && found.count != 0))
        throw FormatError(Fault::wire, offset);
    if (found.count > cursor_.remaining())
        throw FormatError(Fault::truncated, cursor_.offset(), found.count, cursor_.remaining());
    return found;
}

// NOLINTNEXTLINE(misc-no-recursion): types nest at most `deepest` levels.
void ThriftReader::skip(ThriftType type, bool is_element, int depth) {
    if (depth > deepest) throw FormatError(Fault::wire, cursor_.offset());
    switch (type) {
    case ThriftType::stop: break;
    case ThriftType::yes:
    case ThriftType::no: return cursor_.skip(is_element ? 1 : 0);
    case ThriftType::byte: return cursor_.skip(1);
    case ThriftType::i16:
    case ThriftType::i32:
    case ThriftType::i64: return (void)cursor_.varint();
    case ThriftType::number: return cursor_.skip(sizeof(double));
    case ThriftType::binary: return (void)binary();
    case ThriftType::list:
    case ThriftType::set: {
        const Elements found = elements();
        for (std::uint64_t i = 0; i < found.count; ++i) skip(found.type, true, depth + 1);
        return;
    }
    case ThriftType::map: {
        const std::uint64_t count = cursor_.varint();
        if (count == 0) return;              // without types
        if (count > cursor_.remaining() / 2) // each entry takes two bytes
            throw FormatError(Fault::truncated, cursor_.offset(), count, cursor_.remaining());
        const auto types = cursor_.le<std::uint8_t>();
        for (std::uint64_t i = 0; i < count; ++i) {
            skip(static_cast<ThriftType>(types >> 4), true, depth + 1);
            skip(static_cast<ThriftType>(types & 15), true, depth + 1);
        }
        return;
    }
    case ThriftType::structure:
        for (ThriftField field = next({}); field.type != ThriftType::stop; field = next(field))
            skip(field.type, false, depth + 1);
        return;
    }
    throw FormatError(Fault::wire, cursor_.offset());
}

} // namespace headrace::parquet

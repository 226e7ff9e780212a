#include "core/protobuf/wire.hpp"

#include <algorithm>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

std::size_t skipped(std::string_view hex) {
    const auto bytes = from_hex(hex);
    Cursor cursor(bytes_of(bytes));
    const proto::Tag tag = proto::read_tag(cursor);
    proto::skip_value(cursor, tag);
    return static_cast<std::size_t>(cursor.offset());
}

} // namespace

int main() {
    check(skipped("08 9601 ff") == 3);              // varint
    check(skipped("09 0102030405060708") == 9);     // fixed64
    check(skipped("0a 03 616263 ff") == 5);         // bytes
    check(skipped("0d 01020304") == 5);             // fixed32
    check(skipped("0b 1001 0a0161 13 14 0c") == 9); // group with a group in it
    for (const std::string_view bad : {"00", "0e00", "0f00", "0c", "0b14", "0b 13 0c", "8080808080808080808001"})
        check(fault_of([&] { (void)skipped(bad); }).fault == Fault::wire, bad);
    for (const std::string_view cut : {"08", "0901", "0a05 61", "0b", "0affffffffffffffffff01"})
        check(fault_of([&] { (void)skipped(cut); }).fault == Fault::truncated, cut);
    std::string deep;
    for (int i = 0; i < 5000; ++i) deep += "0b";
    check(fault_of([&] { (void)skipped(deep); }).fault == Fault::wire);

    for (unsigned bits = 0; bits <= 64; ++bits) {
        const std::uint64_t value = bits == 0 ? 0 : bits == 64 ? UINT64_MAX : (std::uint64_t{1} << bits) - 1;
        std::byte buffer[10];
        const std::byte* const end = proto::write_varint(buffer, value);
        check(static_cast<std::size_t>(end - buffer) == proto::varint_size(value));
        Cursor cursor(Bytes(buffer, static_cast<std::size_t>(end - buffer)));
        check(cursor.varint() == value && cursor.done());
        for (const std::size_t room : {proto::varint_size(value), std::size_t{8}, std::size_t{16}}) {
            std::byte other[16] = {};
            const std::byte* const last =
                proto::write_varint(other, other + std::max(room, proto::varint_size(value)), value);
            check(last - other == end - buffer &&
                  std::equal(std::begin(buffer), std::begin(buffer) + (last - other), std::begin(other)));
        }
    }
}

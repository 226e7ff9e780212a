#include "core/protobuf/wire.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

std::size_t test_skipping(std::string_view hex) {
    const auto bytes = from_hex(hex);
    Cursor cursor(bytes_of(bytes));
    const proto::Tag tag = proto::read_tag(cursor);
    proto::skip_value(cursor, tag);
    return static_cast<std::size_t>(cursor.offset());
}

/// Writes numbers measured as `size` bytes into `room` bytes. Bytes after those must not change.
std::vector<std::byte> write(const std::vector<std::uint64_t>& numbers, std::size_t size, std::size_t room) {
    std::vector<std::byte> block(room + 16, std::byte{0xEE});
    const auto number_at = [&](std::size_t i) { return numbers[i]; };
    std::byte* const to = block.data();
    FormatError error(Fault::truncated, 0);
    bool failed = false;
    try {
        const auto* const end =
            proto::write_measured<proto::write_varint>(to, to + size, to + room, 0, numbers.size(), number_at);
        check(end == to + size);
    } catch (const FormatError& thrown) {
        error = thrown;
        failed = true;
    }
    check(std::all_of(block.begin() + static_cast<std::ptrdiff_t>(room), block.end(),
                      [](std::byte byte) { return byte == std::byte{0xEE}; }));
    if (failed) throw error;
    block.resize(size);
    return block;
}

void test_measured_numbers() {
    const std::vector<std::uint64_t> numbers = {1, 300, UINT64_MAX, 0}; // 1 + 2 + 10 + 1 bytes
    const auto expected = from_hex("01 ac02 ffffffffffffffffff01 00");
    for (const std::size_t room : {14U, 15U, 39U, 40U, 100U}) { // Up to 39 bytes, each number is checked.
        check(write(numbers, 14, room) == expected);
        for (const std::size_t measured : {4U, 13U, 15U})
            if (measured <= room)
                check(fault_of([&] { (void)write(numbers, measured, room); }).fault == Fault::changed);
    }
    check(write({}, 0, 0).empty());
}

/// The bytes after the length; nothing if the length does not match them.
std::string stripped(std::string_view hex) {
    const auto bytes = from_hex(hex);
    Bytes rest = bytes_of(bytes);
    return proto::strip_length(rest) ? std::to_string(rest.size()) : "";
}

void test_length_prefixes() {
    check(stripped("00") == "0" && stripped("02 6162") == "2" && stripped("8200 6162") == "2");
    check(stripped("808000") == "0" && stripped("808080808080808000") == "0");
    for (const std::string_view other :
         {"", "01", "01 6162", "80", "8080", "80808080808080808000", "ffffffffffffffff7f"})
        check(stripped(other).empty(), other);
    const std::string large = "c801" + std::string(400, '6');
    check(stripped(large) == "200");
}

} // namespace

int main() {
    check(test_skipping("08 9601 ff") == 3);              // varint
    check(test_skipping("09 0102030405060708") == 9);     // fixed64
    check(test_skipping("0a 03 616263 ff") == 5);         // bytes
    check(test_skipping("0d 01020304") == 5);             // fixed32
    check(test_skipping("0b 1001 0a0161 13 14 0c") == 9); // nested groups
    for (const std::string_view bad : {"00", "0e00", "0f00", "0c", "0b14", "0b 13 0c", "8080808080808080808001"})
        check(fault_of([&] { (void)test_skipping(bad); }).fault == Fault::wire, bad);
    for (const std::string_view cut : {"08", "0901", "0a05 61", "0b", "0affffffffffffffffff01"})
        check(fault_of([&] { (void)test_skipping(cut); }).fault == Fault::truncated, cut);
    std::string deep;
    for (int i = 0; i < 5000; ++i) deep += "0b";
    check(fault_of([&] { (void)test_skipping(deep); }).fault == Fault::wire);

    for (unsigned bits = 0; bits <= 64; ++bits) {
        const std::uint64_t value = bits == 0 ? 0 : bits == 64 ? UINT64_MAX : (std::uint64_t{1} << bits) - 1;
        std::byte buffer[10];
        const std::byte* const end = proto::write_varint(buffer, value);
        check(static_cast<std::size_t>(end - buffer) == proto::varint_size(value));
        Cursor cursor(Bytes(buffer, static_cast<std::size_t>(end - buffer)));
        check(cursor.varint() == value && cursor.done());
        std::byte other[18] = {};
        const std::byte* const last = proto::write_varint_in_room(other, value);
        check(last - other == end - buffer && std::equal(std::cbegin(buffer), end, std::cbegin(other)));
    }
    test_measured_numbers();
    test_length_prefixes();
}

#include <algorithm>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

int main() {
    const auto bytes = from_hex("01020304 0506");
    Cursor cursor(bytes_of(bytes), 100);
    check(cursor.le<std::uint32_t>() == 0x04030201);
    check(cursor.offset() == 104 && cursor.remaining() == 2);
    const FormatError error = fault_of([&] { (void)cursor.le<std::uint32_t>(); });
    check(error.fault == Fault::truncated && error.offset == 104 && error.expected == 4 && error.found == 2);
    check(fault_of([&] { (void)cursor.take(UINT64_MAX); }).fault == Fault::truncated); // no overflow past the end
    check(cursor.take(2).size() == 2 && cursor.done());

    const auto varint = [](std::string_view hex) {
        const auto data = from_hex(hex);
        Cursor at(bytes_of(data));
        return at.varint();
    };
    check(varint("00") == 0 && varint("7f") == 127 && varint("8001") == 128 && varint("ac02") == 300);
    check(varint("858000") == 5); // longer than necessary, but legal
    check(varint("ffffffffffffffffff01") == UINT64_MAX);
    check(varint("ffffffffffffffffff7f") == UINT64_MAX); // bits beyond the 64th are dropped
    // Varints of every length, with and without bytes after them: a whole word is read if there is one.
    for (unsigned bits = 0; bits <= 64; ++bits)
        for (const std::uint64_t low : {std::uint64_t{0}, std::uint64_t{0x0123456789ABCDEF}}) {
            const std::uint64_t top = bits == 0 ? 0 : std::uint64_t{1} << (bits - 1);
            const std::uint64_t value = top | (top == 0 ? 0 : low & (top - 1));
            std::byte room[20] = {};
            std::byte* end = room;
            for (std::uint64_t rest = value;; rest >>= 7) {
                *end++ = static_cast<std::byte>(rest < 0x80 ? rest : rest | 0x80);
                if (rest < 0x80) break;
            }
            for (std::size_t behind = 0; behind <= 9; ++behind)
                for (const std::byte fill : {std::byte{0}, std::byte{0xFF}}) {
                    std::fill(end, end + behind, fill);
                    Cursor at(Bytes(room, static_cast<std::size_t>(end - room) + behind));
                    check(at.varint() == value && at.remaining() == behind);
                }
        }
    check(fault_of([&] { (void)varint("ffffffffffffffffffff01"); }).fault == Fault::wire);
    check(fault_of([&] { (void)varint("ff"); }).fault == Fault::truncated);
    check(fault_of([&] { (void)varint(""); }).fault == Fault::truncated);
}

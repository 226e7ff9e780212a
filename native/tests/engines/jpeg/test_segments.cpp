#include "core/engines/jpeg/segments.hpp"

#include <numeric>
#include <vector>

#include "check.hpp"

using namespace headrace;
using namespace headrace::jpeg;
using namespace headrace::testing;

namespace {

/// Counts for each length, then the symbols 0, 1, 2 and so on.
std::vector<std::byte> table(const std::vector<unsigned>& counts) {
    std::vector<std::byte> bytes(16);
    for (std::size_t i = 0; i < counts.size(); ++i) bytes[i] = static_cast<std::byte>(counts[i]);
    const unsigned total = std::accumulate(counts.begin(), counts.end(), 0U);
    for (unsigned i = 0; i < total; ++i) bytes.push_back(static_cast<std::byte>(i));
    return bytes;
}

std::optional<Codes> taken(const std::vector<std::byte>& bytes, unsigned mask = 0, unsigned most = 0) {
    Cursor at{Bytes(bytes)};
    return take_codes(at, mask, most);
}

void numbers_begin_with_their_high_byte() {
    const std::vector<std::byte> bytes{std::byte{0x12}, std::byte{0x34}, std::byte{0x56}};
    Cursor at{Bytes(bytes)};
    check(pair(at) == 0x1234, "two bytes");
    check(byte(at) == 0x56, "one byte");
    check(at.done(), "all of them");
}

void codes_and_symbols_are_read() {
    const std::optional<Codes> found = taken(table({0, 1, 5, 1}));
    check(found.has_value(), "a code");
    check(found->counts[1] == 1 && found->counts[2] == 5 && found->counts[3] == 1, "counts");
    check(found->symbols[6] == 6, "symbols");
}

void more_codes_than_a_length_holds_are_none() {
    check(taken(table({2})).has_value(), "both codes of one bit");
    check(!taken(table({3})).has_value(), "three codes of one bit");
    check(taken(table({1, 2})).has_value(), "all codes of two bits");
    check(!taken(table({1, 3})).has_value(), "one too many");
    check(!taken(table({2, 1})).has_value(), "none are left");
    std::vector<unsigned> longest(16);
    longest[14] = 2;
    longest[15] = 254;
    check(taken(table(longest)).has_value(), "256 symbols");
    longest[15] = 255;
    check(!taken(table(longest)).has_value(), "257 symbols");
}

void symbols_have_a_limit() {
    const std::vector<std::byte> bytes = table({0, 0, 0, 14}); // the symbols 0 to 13
    check(taken(bytes, 255, 13).has_value(), "the largest one");
    check(!taken(bytes, 255, 12).has_value(), "one that is larger");
    check(taken(bytes, 3, 3).has_value(), "only some bits count");
}

void a_table_that_ends_early_is_an_error() {
    const std::vector<std::byte> whole = table({0, 1, 5});
    for (std::size_t size = 0; size < whole.size(); ++size) {
        const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        fault_of([&] { static_cast<void>(taken(cut)); });
    }
}

} // namespace

int main() {
    numbers_begin_with_their_high_byte();
    codes_and_symbols_are_read();
    more_codes_than_a_length_holds_are_none();
    symbols_have_a_limit();
    a_table_that_ends_early_is_an_error();
}

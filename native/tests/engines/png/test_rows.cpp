#include "core/engines/png/decoder.hpp"

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

int main() {
    const auto decode = [](std::string_view stream, PngRows rows) {
        std::string out(rows.height * rows.row_bytes, '?');
        unfilter_png(bytes_of(stream), rows, reinterpret_cast<std::byte*>(out.data()));
        return out;
    };
    using std::string_view;
    using namespace std::string_view_literals;
    check(decode("\0abc\0def"sv, {2, 3, 1}) == "abcdef");
    check(decode("\1\1\1\1\2\1\1\1"sv, {2, 3, 1}) == "\1\2\3\2\3\4"sv); // left, then above
    check(decode("\2\5\6\3\4\4"sv, {2, 2, 1}) == "\5\6\6\12"sv);        // above without a row; average
    check(decode("\3\4\4"sv, {1, 2, 1}) == "\4\6"sv);                   // average in the first row
    check(decode("\4\4\4\4\1\1"sv, {2, 2, 1}) == "\4\10\5\11"sv);       // Paeth in the first row is left
    check(decode("\1\1\2\1\1"sv, {1, 4, 2}) == "\1\2\2\3"sv);           // pixels of two bytes
    check(decode("\1\377\2"sv, {1, 2, 1}) == "\377\1"sv);               // sums wrap
    check(fault_of([&] { (void)decode("\5a"sv, {1, 1, 1}); }).fault == Fault::range);
    check(fault_of([&] { (void)decode("\0a\0"sv, {1, 1, 1}); }).fault == Fault::wrong_count);
    check(fault_of([&] { (void)decode("\0a"sv, {2, 1, 1}); }).fault == Fault::wrong_count);
    check(fault_of([&] { (void)decode(""sv, {0, 1, 1}); }).fault == Fault::wrong_count);
    check(fault_of([&] { (void)decode("\0a"sv, {1, 1, 2}); }).fault == Fault::wrong_count);
}

#include "core/engines/png/filters.hpp"

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/cpus.hpp"
#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

void filters_are_undone(const Cpu& cpu) {
    const auto decode = [&](std::string_view stream, PngRows rows) {
        std::string out(rows.height * rows.row_bytes, '?');
        unfilter_png(bytes_of(stream), rows, reinterpret_cast<std::byte*>(out.data()), cpu);
        return out;
    };
    using std::string_view;
    using namespace std::string_view_literals;
    check(decode("\0abc\0def"sv, {2, 3, 1}) == "abcdef");
    check(decode("\1\1\1\1\2\1\1\1"sv, {2, 3, 1}) == "\1\2\3\2\3\4"sv);         // left, then up
    check(decode("\2\5\6\3\4\4"sv, {2, 2, 1}) == "\5\6\6\12"sv);                // up without a previous row; average
    check(decode("\3\4\4"sv, {1, 2, 1}) == "\4\6"sv);                           // average in the first row
    check(decode("\4\4\4\4\1\1"sv, {2, 2, 1}) == "\4\10\5\11"sv);               // Paeth in the first row is left
    check(decode("\0\1\2\3\4\4\1\1\1\1"sv, {2, 4, 2}) == "\1\2\3\4\2\3\4\5"sv); // Paeth of two bytes
    check(decode("\1\1\2\1\1"sv, {1, 4, 2}) == "\1\2\2\3"sv);                   // pixels of two bytes
    check(decode("\1\377\2"sv, {1, 2, 1}) == "\377\1"sv);                       // sums wrap
    check(fault_of([&] { (void)decode("\5a"sv, {1, 1, 1}); }).fault == Fault::range);
    check(fault_of([&] { (void)decode("\0a\0"sv, {1, 1, 1}); }).fault == Fault::wrong_count);
    check(fault_of([&] { (void)decode("\0a"sv, {2, 1, 1}); }).fault == Fault::wrong_count);
    check(fault_of([&] { (void)decode(""sv, {0, 1, 1}); }).fault == Fault::wrong_count);
    check(fault_of([&] { (void)decode("\0a"sv, {1, 1, 2}); }).fault == Fault::wrong_count);
}

/// The prediction of a filter, exactly as in section 9 of the PNG specification.
int predicted(unsigned filter, int left, int above, int corner) {
    if (filter == 0) return 0;
    if (filter == 1) return left;
    if (filter == 2) return above;
    if (filter == 3) return (left + above) / 2;
    const int guess = left + above - corner;
    const int to_left = std::abs(guess - left), to_above = std::abs(guess - above),
              to_corner = std::abs(guess - corner);
    if (to_left <= to_above && to_left <= to_corner) return left;
    return to_above <= to_corner ? above : corner;
}

/// Filtered by the specification, random rows come back, for every size of a pixel.
void encoded_rows_decode_to_the_original(const Cpu& cpu) {
    std::mt19937 random(1);
    for (std::size_t pixel = 1; pixel <= 8; ++pixel) {
        for (std::size_t columns = 1; columns < 24; ++columns) {
            const PngRows rows{12, columns * pixel, pixel};
            std::vector<std::byte> samples(rows.height * rows.row_bytes), stream;
            for (auto& sample : samples) {
                sample = static_cast<std::byte>(columns % 2 == 0 ? random() : random() % 3 * 127); // ties are frequent
            }
            const auto at = [&](std::size_t row, std::size_t i) {
                return std::to_integer<int>(samples[row * rows.row_bytes + i]);
            };
            for (std::size_t row = 0; row < rows.height; ++row) {
                const auto filter = static_cast<unsigned>((row + columns) % 5);
                stream.push_back(static_cast<std::byte>(filter));
                for (std::size_t i = 0; i < rows.row_bytes; ++i) {
                    const int left = i < pixel ? 0 : at(row, i - pixel), above = row == 0 ? 0 : at(row - 1, i);
                    const int corner = row == 0 || i < pixel ? 0 : at(row - 1, i - pixel);
                    stream.push_back(static_cast<std::byte>(at(row, i) - predicted(filter, left, above, corner)));
                }
            }
            const std::vector<std::byte> exact(stream); // no byte behind it
            std::vector<std::byte> found(samples.size());
            unfilter_png(exact, rows, found.data(), cpu);
            check(found == samples, "rows");
        }
    }
}

} // namespace

int main() {
    for (const Cpu& cpu : runnable_cpus()) {
        filters_are_undone(cpu);
        encoded_rows_decode_to_the_original(cpu);
    }
}

#include "core/framing/npy_columns.hpp"

#include <numeric>
#include <random>
#include <vector>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

/// Every size of an item and many counts of columns, against one item at a time.
void rows_are_joined_from_columns() {
    std::mt19937 random(1);
    for (const std::size_t size : {1U, 2U, 3U, 4U, 8U, 12U, 16U, 100U}) {
        for (std::size_t columns = 1; columns < 40; columns += 3) {
            const std::size_t rows = 7;
            std::vector<std::byte> bytes(rows * columns * size);
            for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
            std::vector<std::size_t> places(columns);
            std::iota(places.begin(), places.end(), std::size_t{0});
            std::shuffle(places.begin(), places.end(), random);
            const std::vector<std::int64_t> indices{3, 0, 6, 6, 1};
            std::vector<std::byte> out(indices.size() * columns * size);
            npy::take_rows({bytes, size, rows, places}, indices, out.data());
            for (std::size_t i = 0; i < indices.size(); ++i) {
                for (std::size_t column = 0; column < columns; ++column) {
                    const std::byte* const item = out.data() + (i * columns + places[column]) * size;
                    const std::size_t from = (column * rows + static_cast<std::size_t>(indices[i])) * size;
                    check(std::equal(item, item + size, bytes.data() + from));
                }
            }
        }
    }
}

void indices_out_of_range_are_refused() {
    const std::vector<std::byte> bytes(12);
    const std::vector<std::size_t> places{0, 1, 2};
    std::vector<std::byte> out(12, std::byte{0x5A});
    for (const std::int64_t wrong : {std::int64_t{4}, std::int64_t{-1}, INT64_MIN, INT64_MAX}) {
        const std::vector<std::int64_t> indices{0, wrong};
        const FormatError error = fault_of([&] { npy::take_rows({bytes, 1, 4, places}, indices, out.data()); });
        check(error.fault == Fault::range && error.record == 1 && out[0] == std::byte{0x5A});
    }
    npy::take_rows({bytes, 1, 4, places}, {}, nullptr);
    npy::take_rows({{}, 1, 4, {}}, std::vector<std::int64_t>{3}, nullptr); // rows without items
}

} // namespace

int main() {
    rows_are_joined_from_columns();
    indices_out_of_range_are_refused();
}

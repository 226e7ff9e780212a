// Reads arbitrary bytes as the pages of a column. The first bytes choose what is expected of it. The result is a fault,
// or rows: the same ones whether they are read at once or in portions.
#include <cstdlib>

#include "core/parquet/column.hpp"

using namespace headrace;
using namespace headrace::parquet;

namespace {

constexpr std::size_t head_size = 8;
constexpr std::size_t most_rows = 1 << 12; // A few bytes may stand for many values.

void must(bool good) {
    if (!good) std::abort();
}

// The bytes of all values, and how many there are in each list and bytes in each text.
struct Found {
    std::vector<std::byte> bytes;
    std::vector<std::int64_t> sizes;
    bool operator==(const Found&) const = default;
};

// Adds some values.
void add_values(Found& to, const ColumnReader::Rows& rows, const ColumnForm& form, std::size_t begin, std::size_t end) {
    must(begin <= end && end <= rows.values);
    if (form.values.is_text()) {
        const std::byte* const codes = rows.codes.data(); // none if the texts are the values
        for (std::size_t at = begin; at < end; ++at) {
            const std::size_t number = codes == nullptr ? at : load_le<std::uint32_t>(codes + at * 4);
            must(number < rows.texts.count);
            const Bytes text = rows.texts.view().at(number);
            to.bytes.insert(to.bytes.end(), text.begin(), text.end());
            to.sizes.push_back(static_cast<std::int64_t>(text.size()));
        }
    } else {
        const std::byte* const numbers = rows.numbers.data();
        to.bytes.insert(to.bytes.end(), numbers + begin * form.values.wanted, numbers + end * form.values.wanted);
    }
}

void add_rows(Found& to, const ColumnReader::Rows& rows, const ColumnForm& form) {
    if (!form.levels.has_lists()) {
        must(rows.values == rows.rows);
        return add_values(to, rows, form, 0, rows.rows);
    }
    const auto* const offsets = reinterpret_cast<const std::int64_t*>(rows.offsets.data());
    must(offsets[0] == 0 && offsets[rows.rows] == static_cast<std::int64_t>(rows.values));
    for (std::size_t row = 0; row < rows.rows; ++row) {
        to.sizes.push_back(offsets[row + 1] - offsets[row]);
        add_values(to, rows, form, static_cast<std::size_t>(offsets[row]), static_cast<std::size_t>(offsets[row + 1]));
    }
}

// The rows of two row groups with the same pages; nothing if they are refused.
std::optional<Found> read(Bytes file, const ColumnChunk& chunk, const ColumnForm& form, std::size_t portion) {
    const auto pool = std::make_shared<Pool>(1 << 20);
    Found found;
    try {
        ColumnReader reader(pool, file, {chunk, chunk}, form);
        for (auto left = static_cast<std::size_t>(2 * chunk.rows); left > 0;) {
            const std::size_t some = std::min(left, portion + left % 3);
            add_rows(found, reader.read(some), form);
            left -= some;
        }
    } catch (const FormatError& error) {
        must(error.fault == Fault::structure || error.fault == Fault::truncated || error.fault == Fault::wire ||
             error.fault == Fault::payload_checksum);
        return std::nullopt;
    }
    return found;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < head_size) return 0;
    constexpr ValueForm values[] = {{8, 8}, {4, 4}, {4, 2}, {4, 1}, {1, 1}, {0, 0}, {4, 8}};
    constexpr LevelForm levels[] = {{0, -1}, {1, -1}, {1, 0}, {2, 0}, {2, 1}, {3, 1}, {2, -1}, {4, 2}};
    constexpr std::int64_t codecs[] = {0, 1, 6, 2};
    ColumnForm form{values[data[0] % std::size(values)], levels[data[1] % std::size(levels)], (data[2] & 64) != 0};
    if ((data[2] & 128) != 0) form.fill.emplace(form.values.is_text() ? 3 : form.values.wanted, std::byte{0x55});
    if ((data[4] & 16) != 0) form.recurring.least_bytes = form.recurring.least_each = 0;
    if ((data[4] & 32) != 0) form.recurring.most_bytes = 0;
    const std::int64_t rows = data[3] + data[4] % 16 * 256;
    const std::int64_t more = form.levels.has_lists() ? data[5] + data[6] % 16 * 256 : 0;
    std::vector<std::byte> file(reinterpret_cast<const std::byte*>(data) + head_size,
                                reinterpret_cast<const std::byte*>(data) + size);
    const auto pages = static_cast<std::int64_t>(file.size());
    file.resize(file.size() + page_slack, std::byte{0xFF}); // and no room behind that
    const ColumnChunk chunk{0, pages, rows + more, rows, codecs[(data[2] & 63) % std::size(codecs)], 0};
    const auto whole = read(file, chunk, form, 2 * most_rows);
    must(read(file, chunk, form, 1 + data[7] % 40) == whole);
    return 0;
}

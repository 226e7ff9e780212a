// Scans, splits, examines and decodes arbitrary bytes. Rows must be contiguous, their fields must join to the rows
// again, decoded texts must survive writing and reading, and numbers must agree with strtod. Rows that are decoded
// together must give what they give one by one.
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/csv/decode.hpp"
#include "core/csv/encode.hpp"
#include "core/csv/examine.hpp"
#include "core/csv/number.hpp"

using namespace headrace;

namespace {

void require(bool good) {
    if (!good) std::abort();
}

void check_number(Bytes field) {
    const std::string text(reinterpret_cast<const char*>(field.data()), field.size());
    double value = 0;
    const std::size_t size = csv::read_float64(text, '.', value);
    require(size <= text.size());
    if (size != 0) require(value == std::strtod(text.substr(0, size).c_str(), nullptr));
    (void)csv::facts_of(text, '.');
}

std::string_view text_in(const csv::Column& column) {
    const Bytes value = column.texts.view().at(0);
    return {reinterpret_cast<const char*>(value.data()), value.size()};
}

void check_row(Bytes row, const csv::Dialect& dialect, const std::shared_ptr<Pool>& pool) {
    const std::vector<Bytes> fields = csv::fields_of(row, dialect);
    std::size_t total = fields.size() - 1;
    for (const Bytes field : fields) {
        total += field.size();
        check_number(field);
    }
    require(total == row.size());
    const csv::Layout layout{dialect, fields.size(), csv::Words({"", "NA"})};
    std::vector<csv::Spec> specs;
    for (std::size_t k = 0; k < fields.size(); ++k) {
        specs.push_back({k, csv::Kind::text, false, 0, ""});
        specs.back().is_bytes = true;
    }
    Spans spans;
    spans.payloads = {row};
    (void)csv::examine(spans, layout);
    const csv::Decoded decoded = csv::Decoder(layout, specs).decode(spans, pool);
    std::vector<csv::Source> sources;
    std::vector<char> room;
    for (std::size_t k = 0; k < fields.size(); ++k) {
        require(csv::value_of(fields[k], dialect, room) == text_in(decoded.columns[k]));
        sources.push_back({csv::Values::text, 1, nullptr, {text_in(decoded.columns[k])}});
    }
    if (!dialect.quote) return;
    const std::vector<char> text = csv::encode(sources, 1, dialect, "\n");
    const Bytes again = std::as_bytes(std::span(text));
    const csv::Row read = csv::row_at(again, 0, dialect, false);
    require(read.next == again.size());
    const std::vector<Bytes> once_more = csv::fields_of(again.first(read.end), dialect);
    require(once_more.size() == fields.size());
    for (std::size_t k = 0; k < fields.size(); ++k)
        require(csv::value_of(once_more[k], dialect, room) == text_in(decoded.columns[k]));
}

/// Rows of one width, in bulk and one at a time.
void check_together(Bytes file, const std::vector<std::int64_t>& starts, const std::vector<Bytes>& rows,
                    const csv::Dialect& dialect, unsigned seed, const std::shared_ptr<Pool>& pool) {
    const std::size_t width = csv::fields_of(rows.front(), dialect).size();
    csv::Layout layout{dialect, width, csv::Words({"", "NA"})};
    std::vector<csv::Spec> specs;
    for (std::size_t k = 0; k < width; ++k) {
        specs.push_back(
            {k, static_cast<csv::Kind>(1 + (seed + k * (1 + seed / 7)) % 6), (seed & 1) != 0, 0, "default"});
        specs.back().exact = specs.back().kind == csv::Kind::float64 && (seed & 2) != 0;
        specs.back().is_bytes = (seed & 4) != 0;
    }
    const csv::Decoder decoder(layout, specs);
    std::optional<csv::Decoded> expected;
    try {
        Spans spans;
        spans.payloads = rows;
        expected = decoder.decode(spans, pool);
    } catch (const FormatError&) { // Must be refused below.
    }
    const csv::Stretch stretch[] = {{file, static_cast<std::uint64_t>(starts.front()), file.size()}};
    for (const Cpu& cpu : {this_cpu, Cpu{}}) {
        const auto found = decoder.decode(stretch, rows.size(), pool, cpu);
        if (!found) continue;
        require(expected.has_value());
        for (std::size_t k = 0; k < width; ++k) {
            const csv::Column &one = found->columns[k], &other = expected->columns[k];
            require(!other.no_text);
            const std::size_t item = csv::size_of(specs[k].kind);
            if (item != 0) {
                require(std::memcmp(one.numbers.data(), other.numbers.data(), rows.size() * item) == 0);
                continue;
            }
            require(one.texts.count == rows.size() && one.texts.size == other.texts.size);
            require(std::memcmp(one.texts.data.data(), other.texts.data.data(), one.texts.size) == 0);
            require(std::memcmp(one.texts.offsets.data(), other.texts.offsets.data(), (rows.size() + 1) * 8) == 0);
        }
    }
    Spans spans;
    spans.payloads = rows;
    const auto one_by_one = csv::examine(spans, layout);
    for (const Cpu& cpu : {this_cpu, Cpu{}}) {
        const auto together = csv::examine(file, starts, file.size(), layout, false, 1, cpu);
        for (std::size_t k = 0; k < width; ++k)
            require(std::memcmp(&together[k], &one_by_one[k], sizeof(csv::ColumnFacts)) == 0);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);
    if (size == 0) return 0;
    csv::Dialect dialect;
    dialect.delimiter = (data[0] & 1) != 0 ? ';' : ',';
    if ((data[0] & 2) != 0) dialect.quote.reset();
    const Bytes file = std::as_bytes(std::span(data + 1, size - 1));
    const csv::Scan found = csv::scan(file, 0, file.size(), dialect, {}, true, size);
    require(found.faulty || found.next == file.size());
    const csv::Scan plainly = csv::scan(file, 0, file.size(), dialect, {}, true, size, Cpu{});
    require(plainly.starts == found.starts && plainly.next == found.next && plainly.faulty == found.faulty);
    const std::vector<Bytes> rows = csv::gather({&file, 1}, {}, found.starts, dialect);
    for (const Bytes row : rows) check_row(row, dialect, pool);
    if (!found.faulty && !rows.empty()) check_together(file, found.starts, rows, dialect, data[0] / 4U, pool);
    for (const std::int64_t start : found.starts) {
        const auto at = static_cast<std::uint64_t>(start);
        require(csv::find(file, at) >= 0);
        require(csv::utf8_until(file.subspan(at)) <= file.size() - at);
    }
    (void)csv::scan(file, 0, file.size(), dialect, {3, true}, false, size);
    return 0;
}

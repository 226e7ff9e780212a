// Scans, splits, examines and decodes arbitrary bytes. Rows must be contiguous, their fields must join to the rows
// again, decoded texts must survive writing and reading, and numbers must agree with strtod.
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/csv/decode.hpp"
#include "core/csv/encode.hpp"

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
    for (const std::int64_t start : found.starts) {
        const auto at = static_cast<std::uint64_t>(start);
        require(csv::find(file, at) >= 0);
        require(csv::utf8_until(file.subspan(at)) <= file.size() - at);
    }
    (void)csv::scan(file, 0, file.size(), dialect, {3, true}, false, size);
    return 0;
}

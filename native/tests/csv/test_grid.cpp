#include "core/csv/grid.hpp"

#include <algorithm>
#include <random>
#include <string>

#include "base/cpus.hpp"
#include "check.hpp"
#include "csv/rows.hpp"

using namespace headrace;
using headrace::testing::bytes_of;
using headrace::testing::check;
using headrace::testing::runnable_cpus;

namespace {

using Rows = std::vector<std::vector<std::string>>;

/// The fields that a grid finds; none if it gives up.
std::optional<Rows> rows_of(std::string_view text, std::size_t begin, std::size_t width, const csv::Dialect& dialect,
                            const Cpu& cpu) {
    csv::FieldGrid grid(dialect, width, cpu);
    Rows rows;
    for (std::uint64_t at = begin; at != text.size();) {
        const auto next = grid.find(bytes_of(text), at, text.size());
        if (!next) return std::nullopt;
        check(*next > at && *next <= text.size() && grid.rows() != 0 && grid.width() == width);
        for (std::size_t i = 0; i < grid.rows(); ++i) {
            auto& row = rows.emplace_back();
            for (std::size_t k = 0; k < width; ++k) row.emplace_back(grid.column(k).begin(i), grid.column(k).size(i));
        }
        at = *next;
    }
    return rows;
}

/// The same, row by row; none if a row is broken or of another width.
std::optional<Rows> rows_by_scan(std::string_view text, std::size_t width, const csv::Dialect& dialect,
                                 std::size_t& begin) {
    const Bytes file = bytes_of(text);
    const csv::Scan found = csv::scan(file, 0, file.size(), dialect, {width, false}, true, text.size() + 1);
    begin = std::min(text.find_first_not_of("\r\n"), text.size());
    if (found.faulty) return std::nullopt;
    Rows rows;
    for (const Bytes row : csv::gather({&file, 1}, {}, found.starts, dialect)) {
        auto& fields = rows.emplace_back();
        for (const Bytes field : csv::fields_of(row, dialect))
            fields.emplace_back(reinterpret_cast<const char*>(field.data()), field.size());
    }
    return rows;
}

void test_against_scan() {
    std::mt19937 random(8);
    std::size_t found = 0, refused = 0;
    for (int round = 0; round < 6000; ++round) {
        csv::Dialect dialect;
        if (random() % 6 == 0) dialect.quote.reset();
        std::string text;
        const std::size_t width = 1 + random() % 4;
        if (random() % 3 == 0) {
            text = headrace::testing::random_rows(random, 1 + random() % 6);
        } else { // of one width, mostly
            static const std::string values[] = {"", "1", "text", "\"a,b\"", "\"a\nb\"", "\"\"", "\"x\"\"y\"", "a b"};
            static const std::string ends[] = {"\n", "\r\n", "\r", "\n\n"};
            const std::string& end = ends[random() % std::size(ends)];
            for (std::size_t row = 0, rows = random() % (round % 100 == 0 ? 9000 : 60); row < rows; ++row) {
                for (std::size_t k = 0; k < width; ++k)
                    text += (k == 0 ? "" : ",") + (random() % 20 == 0 ? std::string(random() % 200, 'l')
                                                                      : values[random() % std::size(values)]);
                if (random() % 3000 == 0) text += ",more";
                text += end;
            }
            if (random() % 2 == 0 && !text.empty()) text.resize(text.size() - end.size());
        }
        std::size_t begin = 0;
        const std::optional<Rows> expected = rows_by_scan(text, width, dialect, begin);
        for (const Cpu& cpu : runnable_cpus()) {
            const std::optional<Rows> rows = rows_of(text, begin, width, dialect, cpu);
            if (rows) check(expected == rows, text);
            found += rows.has_value();
            refused += !rows.has_value();
        }
    }
    check(found > 3000 && refused > 1000);
}

void test_bounds() {
    const csv::Dialect dialect;
    const std::string text = "1,2\n3,4\n5,6\n";
    csv::FieldGrid grid(dialect, 2);
    check(grid.find(bytes_of(text), 0, 8) == 8 && grid.rows() == 2, "up to a row in the middle");
    check(grid.find(bytes_of(text), 4, 8) == 8 && grid.rows() == 1);
    check(!grid.find(bytes_of(text), 0, 7), "not at the end of a row");
    check(!grid.find(bytes_of(text), 0, 13) && !grid.find(bytes_of(text), 8, 8));
    check(!csv::FieldGrid(dialect, 0).find(bytes_of(text), 0, text.size()));
    const std::string huge = std::string(std::size_t{3} << 20, 'x') + ",2\n3,4\n";
    check(!csv::FieldGrid(dialect, 2).find(bytes_of(huge), 0, huge.size()), "very long rows are left to others");
    std::string wide;
    for (int row = 0; row < 20; ++row)
        for (int k = 0; k < 30000; ++k) wide += k == 29999 ? "7\n" : "7,";
    for (const Cpu& cpu : runnable_cpus()) check(rows_of(wide, 0, 30000, dialect, cpu)->size() == 20);
}

} // namespace

int main() {
    test_against_scan();
    test_bounds();
}

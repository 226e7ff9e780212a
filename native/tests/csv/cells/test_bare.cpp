#include "core/csv/cells/bare.hpp"

#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "core/csv/fields.hpp"
#include "csv/cells/table.hpp"

using namespace headrace;
using headrace::testing::CellTable;
using headrace::testing::check;

namespace {

std::string value_of(const csv::GridColumn& column, std::size_t row) { return {column.begin(row), column.size(row)}; }

/// What number_in looks at, without a plus sign before a digit or a mark.
std::string bare_slowly(const std::string& field, const csv::Layout& layout, bool& is_missing) {
    const csv::Field found = csv::field_at(field, 0, layout.dialect);
    std::string text(csv::trimmed(csv::inner_of(field, found)));
    is_missing = !text.empty() && layout.missing.has("") && layout.missing.has(text);
    if (is_missing) return "";
    const bool has_number = text.size() > 1 && (std::isdigit(static_cast<unsigned char>(text[1])) != 0 ||
                                                text[1] == layout.dialect.decimal);
    return text.starts_with('+') && has_number ? text.substr(1) : text;
}

std::string random_field(std::mt19937& random, const csv::Layout& layout) {
    static const std::string texts[] = {"12",  "-3.5",     "+7", "+.5", "+-5", "+", "++5", "",     "NA",
                                        "NAN", "missing.", "x",  "-NA", "1 2", ".", "5.",  "true", "+true"};
    static const std::string blanks[] = {"", "", "", " ", "\t", "   \t", "                    "};
    const std::string blank = blanks[random() % std::size(blanks)];
    const std::string text = blank + texts[random() % std::size(texts)] + blanks[random() % std::size(blanks)];
    if (!layout.dialect.quote || random() % 2 == 0) return text;
    return '"' + text + (random() % 8 == 0 ? "\"\"" : "") + '"';
}

const std::vector<std::string> words{"", "NA", "-NA", "missing."};

void test_values() {
    std::mt19937 random(5);
    for (int round = 0; round < 600; ++round) {
        const bool has_empty = random() % 3 != 0;
        csv::Layout layout{{}, 2, csv::Words({words.begin() + (has_empty ? 0 : 1), words.end()})};
        if (random() % 5 == 0) layout.dialect.quote.reset();
        if (random() % 5 == 0) layout.dialect.decimal = ',';
        std::vector<std::string> values;
        for (std::size_t i = 0, rows = 1 + random() % 40; i < rows; ++i) values.push_back(random_field(random, layout));
        const CellTable table(values);
        csv::BareCells cells(layout);
        check(cells.has_missing() == has_empty);
        const std::size_t first = random() % values.size();
        const csv::GridColumn bare = cells.strip(table.column(), first, values.size());
        std::size_t missing = 0;
        for (std::size_t i = first; i < values.size(); ++i) {
            bool is_missing = false;
            const std::string expected = bare_slowly(values[i], layout, is_missing);
            check(value_of(bare, i) == expected, values[i]);
            check(cells.would_change(table.column(), i) == (expected.size() != values[i].size()), values[i]);
            check(cells.missing_before(i) == missing);
            missing += is_missing;
        }
        check(cells.missing_before(values.size()) == missing);
    }
}

/// Runs cover each row once, bare or as it is.
void test_runs() {
    std::mt19937 random(6);
    std::size_t bare_rows = 0, single_rows = 0;
    for (int round = 0; round < 400; ++round) {
        const csv::Layout layout{{}, 2, csv::Words({words.begin() + round % 2, words.end()})};
        const unsigned odd = 1U << random() % 8;
        std::vector<std::string> values;
        for (std::size_t i = 0, rows = 1 + random() % 600; i < rows; ++i)
            values.push_back(random() % odd == 0 ? random_field(random, layout) : "1");
        const CellTable table(values);
        csv::BareCells cells(layout);
        const bool may_miss = random() % 3 == 0;
        csv::CellRuns runs(cells, table.column(), values.size(), may_miss);
        check(runs.readable() == (!may_miss || layout.missing.has("")));
        std::size_t missing = 0;
        for (std::size_t i = 0; i < values.size();) {
            check(runs.stop() >= i || !runs.readable());
            while (runs.readable() && i < runs.stop()) { // Reads ones, and empty cells.
                const std::string value = value_of(runs.cells(), i);
                if (!value.empty() && value != "1") break;
                bool is_missing = false;
                check(values[i] == value || bare_slowly(values[i], layout, is_missing) == value, values[i]);
                bare_rows += values[i] != value;
                missing += is_missing;
                ++i;
            }
            check(runs.missing_before(i) == missing);
            if (i == values.size() || runs.go_on(i)) continue;
            ++single_rows;
            ++i;
        }
    }
    check(bare_rows > 1000 && single_rows > 1000, "both are tried");
}

} // namespace

int main() {
    test_values();
    test_runs();
}

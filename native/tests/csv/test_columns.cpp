#include "core/csv/columns.hpp"

#include <string>

#include "base/cpus.hpp"
#include "check.hpp"

using namespace headrace;
using headrace::testing::bytes_of;
using headrace::testing::check;
using headrace::testing::fault_of;

namespace {

std::string_view text_at(const csv::Column& column, std::size_t row) {
    return csv::text_of(column.texts.view().at(row));
}

void test_values_and_rows() {
    const csv::Layout layout{{}, 3, csv::Words({"", "NA"})};
    const std::vector<csv::Spec> specs{
        {2, csv::Kind::text, false, 0, ""}, {0, csv::Kind::int64, false, 0, ""}, {1, csv::Kind::text, true, 0, "none"}};
    const auto pool = std::make_shared<Pool>(1 << 20);
    std::string text;
    for (int row = 0; row < 3000; ++row)
        text +=
            std::to_string(row) + (row % 2 == 0 ? ",NA," : ",b,") + (row % 3 == 0 ? "\"a \"\"b\"\"\"\n" : "plain\n");
    for (const Cpu& cpu : headrace::testing::runnable_cpus()) {
        csv::Columns columns(layout, specs, pool, 3001, text.size(), 0);
        const std::string_view row = "-5,x,\"y\"\"\"";
        columns.add(1, row, csv::field_at(row, 0, layout.dialect));
        columns.add(2, row, csv::field_at(row, 3, layout.dialect));
        columns.add(0, row, csv::field_at(row, 5, layout.dialect));
        csv::FieldGrid grid(layout.dialect, 3, cpu);
        for (std::uint64_t at = 0; at != text.size();) {
            at = *grid.find(bytes_of(text), at, text.size());
            columns.add(grid);
        }
        const csv::Decoded found = columns.take();
        check(load_le<std::int64_t>(found.columns[1].numbers.data()) == -5 && text_at(found.columns[0], 0) == "y\"");
        for (std::size_t k = 0; k < 3000; ++k) {
            check(load_le<std::uint64_t>(found.columns[1].numbers.data() + 8 * (k + 1)) == k);
            check(text_at(found.columns[2], k + 1) == (k % 2 == 0 ? "none" : "b"));
            check(text_at(found.columns[0], k + 1) == (k % 3 == 0 ? "a \"b\"" : "plain"));
        }
    }
    csv::Columns columns(layout, specs, pool, 1, 9, 0);
    csv::FieldGrid grid(layout.dialect, 3);
    check(grid.find(bytes_of("x,y,z"), 0, 5) == 5);
    const FormatError error = fault_of([&] { columns.add(grid); });
    check(error.fault == Fault::wrong_kind && error.feature == 1);
}

} // namespace

int main() { test_values_and_rows(); }

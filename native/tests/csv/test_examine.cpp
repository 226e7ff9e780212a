#include "core/csv/examine.hpp"

#include <algorithm>
#include <random>
#include <string>

#include "base/cpus.hpp"
#include "check.hpp"

using namespace headrace;
using headrace::testing::bytes_of;
using headrace::testing::check;
using headrace::testing::fault_of;

namespace {

const csv::Dialect plain;

constexpr auto fields = {&csv::ColumnFacts::empty,    &csv::ColumnFacts::missing, &csv::ColumnFacts::whole,
                         &csv::ColumnFacts::positive, &csv::ColumnFacts::huge,    &csv::ColumnFacts::real,
                         &csv::ColumnFacts::boolean,  &csv::ColumnFacts::text,    &csv::ColumnFacts::padded,
                         &csv::ColumnFacts::wide,     &csv::ColumnFacts::negative};

csv::Layout layout(std::size_t width) { return {plain, width, csv::Words({"", "NA"})}; }

void test_facts() {
    Spans spans;
    spans.payloads = {bytes_of("1,a"), bytes_of("007,"), bytes_of("2.5,NA"), bytes_of("true,9223372036854775809"),
                      bytes_of("broken")};
    const auto facts = csv::examine(spans, layout(2));
    check(facts[0].whole == 2 && facts[0].padded == 1 && facts[0].real == 1 && facts[0].boolean == 1);
    check(facts[1].text == 1 && facts[1].empty == 1 && facts[1].missing == 1 && facts[1].positive == 1 &&
          facts[1].wide == 1);
}

/// The fast ways of counting against a row at a time of one column, and threads against one.
void test_facts_of_all() {
    std::mt19937 random(9);
    static const std::string values[] = {"1",
                                         "-7",
                                         "007",
                                         "2.5",
                                         "1e5",
                                         "1e400",
                                         "true",
                                         "False",
                                         "TRUEx",
                                         "NA",
                                         "",
                                         " 1",
                                         "x",
                                         "inf",
                                         "-3.0",
                                         "9223372036854775808",
                                         "-9223372036854775809",
                                         "\"1\"",
                                         "\"a\"\"b\"",
                                         "9007199254740993",
                                         "-0",
                                         "+5",
                                         "\"x",
                                         "5.",
                                         ".5",
                                         "1e"};
    std::vector<std::string> rows;
    for (int i = 0; i < 5000; ++i) {
        std::string row = values[random() % std::size(values)];
        for (std::size_t k = 1, fields = random() % 20 == 0 ? 2 : 3; k < fields; ++k)
            row += "," + values[random() % std::size(values)];
        rows.push_back(row);
    }
    Spans spans;
    for (const std::string& row : rows) spans.payloads.push_back(bytes_of(row));
    const auto whole = csv::examine(spans, layout(3)), shared = csv::examine(spans, layout(3), false, 4);
    csv::Layout unusual = layout(3); // a number that may mean a missing value turns the fast ways off
    unusual.missing = csv::Words({"", "NA", "77777", "TRUE"});
    const auto slow = csv::examine(spans, unusual);
    for (std::size_t k = 0; k < 3; ++k) {
        check(whole[k].whole == shared[k].whole && whole[k].text == shared[k].text && whole[k].real == shared[k].real);
        for (const auto field : fields) check(whole[k].*field == slow[k].*field && whole[k].*field != 0);
    }
    // Rows of a file that follow each other.
    std::string text = "not a row of this table\n";
    std::vector<std::int64_t> starts;
    for (const std::string& row : rows) {
        starts.push_back(static_cast<std::int64_t>(text.size()));
        text += row + (random() % 9 == 0 ? "\r\n\n" : "\n");
    }
    for (const Cpu& cpu : headrace::testing::runnable_cpus()) {
        const auto together = csv::examine(bytes_of(text), starts, text.size(), layout(3), false, 2, cpu);
        for (std::size_t k = 0; k < 3; ++k)
            for (const auto field : fields) check(together[k].*field == whole[k].*field);
    }
    const auto early = csv::examine(spans, layout(3), true);
    check(early[0].text + early[0].padded == 1 && early[0].whole < whole[0].whole);
}

/// Rows without faults, which are examined column by column.
void test_rows_together() {
    std::mt19937 random(3);
    static const std::string numbers[] = {"1",
                                          "-7",
                                          "007",
                                          "2.5",
                                          "-0",
                                          "9007199254740993",
                                          "12345678901234567890",
                                          "1e5",
                                          " 1",
                                          "NA",
                                          "",
                                          "true",
                                          "-9223372036854775808",
                                          "-.5",
                                          "0.25",
                                          "00.5",
                                          "-0.5",
                                          "+5",
                                          "\"8\"",
                                          "\" +9 \"",
                                          "\"NA\"",
                                          "\"\"",
                                          "5.",
                                          "\"true\"",
                                          "1234567890123456789"};
    for (int round = 0; round < 300; ++round) {
        const std::size_t kinds = 1 + random() % std::size(numbers);
        std::string text;
        std::vector<std::int64_t> starts;
        Spans spans;
        for (std::size_t i = 0, rows = 1 + random() % 300; i < rows; ++i) {
            starts.push_back(static_cast<std::int64_t>(text.size()));
            text += "x,";
            text += numbers[random() % kinds];
            text += random() % 50 == 0 ? ",\"a\"\"b\"\n" : ",text\n";
        }
        const Bytes file = bytes_of(text);
        spans.payloads = csv::gather_adjacent(file, starts, text.size());
        for (const bool until_text : {false, true}) {
            const auto one_by_one = csv::examine(spans, layout(3), until_text);
            for (const Cpu& cpu : headrace::testing::runnable_cpus()) {
                const auto together = csv::examine(file, starts, text.size(), layout(3), until_text, 1, cpu);
                for (std::size_t k = 0; k < 3; ++k)
                    for (const auto field : fields)
                        if (!until_text || k == 1) check(together[k].*field == one_by_one[k].*field, text);
            }
        }
    }
    const std::int64_t falling[] = {4, 2};
    check(fault_of([&] { (void)csv::examine(bytes_of("1,2\n3,4\n"), falling, 8, layout(2)); }).fault == Fault::range);
    check(csv::examine(bytes_of("1"), {}, 1, layout(2)).size() == 2);
}

/// The rows that a scan in runs finds, and where they end.
std::vector<std::int64_t> scan_runs(Bytes file, std::uint64_t begin, const csv::RunSizes& sizes, std::uint64_t& end) {
    std::vector<std::int64_t> starts;
    end = begin;
    for (std::uint64_t size = sizes.first; end < file.size() && end - begin < sizes.wanted;
         size = std::min(2 * size, sizes.most)) {
        const Scan run =
            csv::scan(file, end, std::min<std::uint64_t>(file.size(), end + size), plain, {}, true, 1 << 20);
        if (run.faulty) throw run.fault;
        starts.insert(starts.end(), run.starts.begin(), run.starts.end());
        end = run.next;
    }
    return starts;
}

/// The head of a file against the rows of a scan.
void test_heads() {
    std::mt19937 random(12);
    std::size_t found = 0, refused = 0;
    static const std::string values[] = {"1",        "-2.5",        "text", "",        "true",
                                         "\"a\nb\"", "\"a,\"\"b\"", "a\"b", "\"\n\n\""};
    static const std::string ends[] = {"\n", "\r\n", "\n\n", "\r", "\n\r\n"};
    for (int round = 0; round < 6000; ++round) {
        const std::size_t kinds = 1 + random() % std::size(values), breaks = random() % 40 == 0 ? 5 : 1 + round % 2;
        std::string text = "head,er\n";
        const std::uint64_t begin = text.size();
        for (std::size_t i = 0, rows = random() % 60; i < rows; ++i) {
            text += values[random() % kinds];
            if (random() % 600 != 0) text += ',';
            text += values[random() % kinds];
            if (i + 1 != rows || random() % 2 == 0) text += ends[random() % breaks];
        }
        const csv::RunSizes sizes{1 + random() % 40, 41 + random() % 40, random() % 400};
        const Bytes file = bytes_of(text);
        const Cpu cpu = random() % 2 == 0 ? this_cpu : Cpu{};
        const auto head = csv::examine_head(file, begin, sizes, layout(2), false, 1 + random() % 2, cpu);
        if (!head) {
            ++refused;
            continue;
        }
        ++found;
        std::uint64_t end = 0;
        const std::vector<std::int64_t> starts = scan_runs(file, begin, sizes, end);
        check(end == head->end, text);
        const auto expected = csv::examine(file, starts, end, layout(2), false, 1, cpu);
        for (std::size_t k = 0; k < 2; ++k)
            for (const auto field : fields) check(head->columns[k].*field == expected[k].*field, text);
    }
    check(found > 1500 && refused > 500);
    std::string text; // in pieces
    for (int i = 0; i < 100'000; ++i) text += std::to_string(random()) + (i % 7 == 0 ? ",\"a\nb\"\n" : ",x\n");
    const csv::RunSizes sizes{std::uint64_t{64} << 10, std::uint64_t{1} << 20, std::uint64_t{1} << 20};
    std::uint64_t end = 0;
    const std::vector<std::int64_t> starts = scan_runs(bytes_of(text), 0, sizes, end);
    const auto head = csv::examine_head(bytes_of(text), 0, sizes, layout(2), false, 3);
    if (head)
        check(head->end == end && head->columns[0].whole == starts.size() && head->columns[1].text == starts.size());
    std::string plain_text;
    for (int i = 0; i < 100'000; ++i) plain_text += std::to_string(i) + ",x\n";
    const auto whole = csv::examine_head(bytes_of(plain_text), 0, {1, 1 << 20, 1 << 30}, layout(2), false, 3);
    check(whole && whole->end == plain_text.size() && whole->columns[0].whole == 100'000);
    check(!csv::examine_head(bytes_of(plain_text), 0, {0, 1, 5}, layout(2)), "runs that never end");
    check(!csv::examine_head(bytes_of(plain_text), plain_text.size(), {1, 1, 5}, layout(2)), "no row");
    check(!csv::examine_head(bytes_of(plain_text), 0, {1, 1, 5}, layout(3)), "another width");
}

} // namespace

int main() {
    test_heads();
    test_facts_of_all();
    test_rows_together();
    test_facts();
}

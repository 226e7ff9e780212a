#include "core/csv/cells/counts.hpp"

#include <random>
#include <string>
#include <vector>

#include "base/cpus.hpp"
#include "check.hpp"
#include "core/csv/layout.hpp"
#include "core/csv/number.hpp"
#include "csv/cells/table.hpp"

using namespace headrace;
using headrace::testing::CellTable;
using headrace::testing::check;
using headrace::testing::runnable_cpus;

namespace {

/// Adds what facts_of finds. Returns false for a value that must not be counted.
bool count_slowly(const std::string& value, char decimal, csv::CellCounts& counts) {
    const csv::NumberFacts facts = csv::facts_of(value, decimal);
    if (facts.padded) return false;
    if (value.empty()) ++counts.empty;
    else if (facts.kind == csv::NumberKind::real) ++counts.real;
    else if (facts.kind != csv::NumberKind::whole) return false;
    else {
        ++counts.whole;
        counts.wide += facts.wide;
        counts.negative += value.front() == '-';
    }
    return true;
}

bool are_equal(const csv::CellCounts& a, const csv::CellCounts& b) {
    return a.empty == b.empty && a.whole == b.whole && a.real == b.real && a.boolean == b.boolean &&
           a.negative == b.negative && a.wide == b.wide && a.missing == b.missing;
}

/// Counts a column to its end, by leaving out what is not plain. Returns how many values are.
std::size_t compare_counts(const std::vector<std::string>& values, char decimal, const Cpu& cpu) {
    const CellTable table(values);
    csv::CellCounts counts, expected;
    std::size_t plain = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t next = csv::count_numbers(table.column(), i, values.size(), decimal, counts, nullptr, cpu);
        check(next >= i && next <= values.size());
        for (; i < next; ++i, ++plain) check(count_slowly(values[i], decimal, expected), values[i]);
        check(are_equal(counts, expected));
    }
    return plain;
}

void test_numbers() {
    std::mt19937_64 random(3);
    static const std::string forms[] = {"1",
                                        "-7",
                                        "007",
                                        "-00",
                                        "0",
                                        "-0",
                                        "2.5",
                                        "00.5",
                                        "0.5",
                                        "-0.25",
                                        "-.5",
                                        "5.",
                                        "1.2.3",
                                        "",
                                        "",
                                        "1e5",
                                        "1E-5",
                                        "1e+55",
                                        "1e400",
                                        "1e",
                                        "1e+",
                                        "e5",
                                        "-e5",
                                        "1.5e3",
                                        "1.e3",
                                        "1ee5",
                                        "1e5.5",
                                        "01e5",
                                        "+5",
                                        "--5",
                                        "5-",
                                        "-",
                                        ".",
                                        "x",
                                        "NA",
                                        " 1",
                                        "inf",
                                        "true",
                                        "9007199254740992",
                                        "9007199254740993",
                                        "-9007199254740993",
                                        "1234567890123456",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "-9223372036854775808",
                                        "12345678901234567890",
                                        "0.12345678901234567",
                                        "12345678901234567890.5",
                                        "123456789012345678901234567890.5",
                                        "1234567890123456789012345678901e5"};
    for (const Cpu& cpu : runnable_cpus()) {
        std::size_t plain = 0;
        for (int round = 0; round < 300; ++round) {
            const std::size_t kinds = 1 + random() % std::size(forms), shift = random() % std::size(forms);
            std::vector<std::string> values;
            for (std::size_t i = 0, rows = random() % 90; i < rows; ++i) {
                const bool is_usual = random() % 4 != 0;
                std::string& value = values.emplace_back(forms[(shift + random() % kinds) % std::size(forms)]);
                if (is_usual) value = std::to_string(random() >> random() % 64).substr(0, 1 + random() % 18);
                if (is_usual && round % 3 == 0) value += ".5";
            }
            const char decimal = round % 5 == 0 ? ',' : '.';
            plain += compare_counts(values, decimal, cpu);
        }
        check(plain > 3000);
    }
}

/// Columns whose values have blanks, plus signs or missing words.
void test_what_is_around() {
    std::mt19937_64 random(5);
    const std::vector<std::string> words{"NA", "null", "-NA", "n/a", "missing", "sixteen bytes ok", "+NA", "."};
    const csv::Words missing(words);
    static const std::string before[] = {"", "", " ", "  ", "\t ", "      ", "+", " +", "++", "+ ", "+-"};
    std::size_t by_vectors = 0, plainly = 0;
    for (int round = 0; round < 2000; ++round) {
        const std::size_t forms = 1 + random() % 3, shift = random(), rare = 1 + random() % 20;
        std::vector<std::string> values;
        for (std::size_t i = 0, rows = random() % 60; i < rows; ++i) {
            const bool is_odd = random() % rare == 0;
            const std::string& front = before[is_odd ? random() % std::size(before) : (shift + i % forms) % 8];
            const std::uint64_t what = random();
            values.push_back(front + (what % 3 == 0 ? words[(shift + what / 3 % forms) % words.size()]
                                      : is_odd      ? "007"
                                                    : std::to_string(what >> (44 + what % 20)) + (i % 2 ? ".5" : "")));
        }
        const CellTable table(values);
        for (const Cpu& cpu : runnable_cpus()) {
            std::size_t& read = cpu.vbmi && cpu.pclmul ? by_vectors : plainly;
            csv::Around around(&missing);
            csv::CellCounts counts, expected;
            for (std::size_t i = 0; i < values.size(); ++i) {
                const std::size_t next =
                    csv::count_numbers(table.column(), i, values.size(), '.', counts, &around, cpu);
                check(next >= i && next <= values.size());
                for (; i < next; ++i, ++read) {
                    const std::string text(csv::trimmed(values[i]));
                    if (missing.has(text)) ++expected.missing;
                    else check(count_slowly(text, '.', expected), values[i]);
                }
                check(are_equal(counts, expected));
            }
        }
    }
    // Up to ten ways have no vectors.
    check(by_vectors == 0 || by_vectors > plainly / 6);
}

void test_truths() {
    std::mt19937_64 random(4);
    static const std::string forms[] = {"True",
                                        "true",
                                        "TRUE",
                                        "False",
                                        "false",
                                        "FALSE",
                                        "tRUE",
                                        "Truex",
                                        "",
                                        "1",
                                        "Tru",
                                        std::string("true\0", 5),
                                        std::string("false\0", 6),
                                        std::string("true\0\0", 6)};
    for (const Cpu& cpu : runnable_cpus()) {
        for (int round = 0; round < 200; ++round) {
            std::vector<std::string> values;
            for (std::size_t i = 0; i < 60; ++i)
                values.push_back(forms[random() % (random() % 20 == 0 ? std::size(forms) : 6)]);
            const CellTable table(values);
            csv::CellCounts counts;
            std::size_t plain = 0;
            for (std::size_t i = 0; i < values.size(); ++i) {
                const std::size_t next = csv::count_truths(table.column(), i, values.size(), counts, cpu);
                for (; i < next; ++i, ++plain) check(csv::truth_of(values[i]) >= 0, values[i]);
                check(i == values.size() || csv::truth_of(values[i]) < 0 || values.size() - i < 24,
                      "near the end only");
            }
            check(counts.boolean == plain && plain > 5);
        }
    }
}

} // namespace

int main() {
    test_numbers();
    test_what_is_around();
    test_truths();
}

#include "core/csv/cells/numbers.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/cpus.hpp"
#include "check.hpp"
#include "core/csv/number.hpp"
#include "core/csv/value.hpp"
#include "csv/cells/table.hpp"

using namespace headrace;
using headrace::testing::CellTable;
using headrace::testing::check;
using headrace::testing::runnable_cpus;

namespace {

/// The bits of a number as the slow ways read it; none if it is not one.
std::optional<std::uint64_t> slowly(const std::string& text, csv::Kind kind, char decimal) {
    const int truth = csv::truth_of(text);
    if (kind == csv::Kind::boolean) return truth < 0 ? std::nullopt : std::optional<std::uint64_t>(truth);
    std::uint64_t bits = 0;
    const std::size_t size = csv::read_number(text, kind, decimal, bits);
    return size == text.size() && size != 0 ? std::optional(bits) : std::nullopt;
}

std::uint64_t bits_at(const std::vector<std::byte>& from, std::size_t i, csv::Kind kind) {
    const std::size_t item = csv::size_of(kind);
    std::uint64_t bits = 0;
    std::memcpy(&bits, from.data() + i * item, item);
    return bits;
}

/// Reads a column to its end, by leaving out what is not plain. Returns how many values are.
std::size_t compare_numbers(const std::vector<std::string>& values, const csv::NumberForm& form, const Cpu& cpu) {
    const CellTable table(values);
    const std::size_t rows = values.size(), item = csv::size_of(form.kind);
    std::vector<std::byte> out(rows * item);
    std::size_t plain = 0;
    for (std::size_t i = 0; i < rows; ++i) {
        const std::size_t next = csv::read_cells(table.column(), i, rows, form, out.data() + i * item, cpu);
        check(next >= i && next <= rows);
        for (; i < next; ++i, ++plain) {
            const bool is_empty = values[i].empty() && form.empty;
            const std::optional<std::uint64_t> expected =
                is_empty ? form.empty : slowly(values[i], form.kind, form.decimal);
            check(expected && *expected == bits_at(out, i, form.kind), values[i]);
            // An integer that float64 may round is left to the slow ways.
            if (form.kind == csv::Kind::float64 && !is_empty)
                check(!csv::facts_of(values[i], form.decimal).wide, values[i]);
        }
    }
    return plain;
}

std::string random_number(std::mt19937_64& random) {
    static const std::string alphabet = "0123456789.-+e ,\"\xff/:E";
    std::string text;
    const unsigned most = static_cast<unsigned>(random() % (random() % 4 == 0 ? 36 : 22));
    for (unsigned k = 0; k < most; ++k) text += alphabet[random() % 10];
    if (!text.empty() && random() % 2 == 0) text[random() % text.size()] = '.';
    if (!text.empty() && random() % 10 == 0) text[random() % text.size()] = alphabet[random() % alphabet.size()];
    if (random() % 4 == 0) text = "-" + text;
    if (random() % 8 == 0) {
        static const std::string signs[] = {"e", "E", "e-", "e+", "E-", "ee", "e--", "e+-"};
        text += signs[random() % std::size(signs)];
        text += std::to_string(random() % (random() % 2 == 0 ? 30 : 2000));
    }
    return text;
}

void test_numbers() {
    std::mt19937_64 random(3);
    const std::vector<std::string> edges{"9223372036854775807",
                                         "9223372036854775808",
                                         "-9223372036854775808",
                                         "-9223372036854775807",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "99999999999999999999",
                                         "-0",
                                         "0",
                                         "-",
                                         "",
                                         ".",
                                         "-.",
                                         "1.",
                                         ".1",
                                         "-.1",
                                         "--1",
                                         "1-1",
                                         "1.2.3",
                                         "1..2",
                                         "0.1",
                                         "-0.0",
                                         "9007199254740992",
                                         "9007199254740993",
                                         "9007199254740993.0",
                                         "0.12345678901234567",
                                         "-123.45678901234567",
                                         "1234567.890123456789",
                                         "0.000000000000000000000000000012",
                                         "123456789012345.6",
                                         "1234567890123456",
                                         "123456789012345678901234567890.5",
                                         "4503599627370497.5",
                                         "4503599627370496.5",
                                         "true",
                                         "True",
                                         "TRUE",
                                         "tRUE",
                                         "false",
                                         "False",
                                         "FALSE",
                                         "falsey"};
    for (const Cpu& cpu : runnable_cpus()) {
        for (int kind = 1; kind <= 5; ++kind) {
            for (const char decimal : {'.', ','}) {
                std::vector<std::string> values = edges;
                for (int k = 0; k < 3000; ++k) values.push_back(random_number(random));
                if (kind == 5)
                    for (int k = 0; k < 3000; ++k) values.push_back(edges[edges.size() - 1 - random() % 8]);
                if (decimal == ',')
                    for (std::string& value : values) std::ranges::replace(value, '.', ',');
                csv::NumberForm form{static_cast<csv::Kind>(kind), decimal, std::nullopt};
                const std::size_t plain = compare_numbers(values, form, cpu);
                form.empty = 7;
                check(compare_numbers(values, form, cpu) > plain && plain > 500);
            }
        }
    }
}

/// Columns of values of one form, in which groups of eight are read at once, with few others among them.
void test_columns_of_one_form() {
    std::mt19937_64 random(14);
    const auto digits = [&](std::size_t most) {
        std::string text;
        for (std::size_t size = 1 + random() % most; size != 0; --size) text += static_cast<char>('0' + random() % 10);
        return text;
    };
    const std::function<std::string()> forms[] = {
        [&] { return digits(16); },
        [&] { return (random() % 2 == 0 ? "-" : "") + digits(15); },
        [&] { return digits(7) + "." + digits(8); },
        [&] { return "-" + digits(5) + "." + digits(9); },
        [&] { return random() % 3 == 0 ? "" : digits(4) + "." + digits(4); },
        [&] { return digits(3) + "." + digits(17); },
        [&] { return digits(1) + "." + digits(8) + "e" + (random() % 2 == 0 ? "-" : "+") + digits(2); },
        [&] { return std::string(random() % 2 == 0 ? "True" : "False"); },
        [&] { return std::string(random() % 2 == 0 ? "true" : ""); },
    };
    static const std::string others[] = {"",
                                         "x",
                                         "1.2.3",
                                         "-",
                                         "--1",
                                         "1-",
                                         ".5",
                                         "5.",
                                         " 1",
                                         "NA",
                                         "1e5",
                                         "-0",
                                         "-0.0",
                                         "9999999999999999",
                                         "9007199254740993",
                                         "99999999999999999999",
                                         "1\"2"};
    for (const auto& form : forms) {
        for (int round = 0; round < 60; ++round) {
            std::vector<std::string> values;
            for (std::size_t i = 0, rows = random() % 120; i < rows; ++i) values.push_back(form());
            for (int k = 0; k < round % 4 && !values.empty(); ++k)
                values[random() % values.size()] = others[random() % std::size(others)];
            for (const Cpu& cpu : runnable_cpus()) {
                for (int kind = 1; kind <= 5; ++kind) {
                    csv::NumberForm number{static_cast<csv::Kind>(kind), '.', std::nullopt};
                    (void)compare_numbers(values, number, cpu);
                    number.empty = 7;
                    (void)compare_numbers(values, number, cpu);
                }
            }
        }
    }
}

/// Columns whose values have blanks, plus signs or missing words.
void test_what_is_around() {
    std::mt19937_64 random(15);
    const std::vector<std::string> words{"", "NA", "null", "-NA", "n/a", "missing", "sixteen bytes ok", "+NA", "."};
    const csv::Layout layout{{}, 2, csv::Words(words)};
    static const std::string before[] = {"", "", " ", "  ", "\t ", "      ", "+", " +", "++", "+ ", " -", "+-", "-+"};
    static const std::string values[] = {"1",  "-2",      "12.5", "007", "",      ".5",
                                         "5.", "1234567", "1e5",  "x",   "\"3\"", "1 "};
    std::size_t by_vectors = 0, plainly = 0;
    for (int round = 0; round < 2000; ++round) {
        const std::size_t forms = 1 + random() % 3, shift = random(), rare = 1 + random() % 20;
        std::vector<std::string> column;
        for (std::size_t i = 0, rows = random() % 60; i < rows; ++i) {
            const bool is_odd = random() % rare == 0;
            const std::string& front = before[is_odd ? random() % std::size(before) : (shift + i % forms) % 8];
            const std::uint64_t what = random();
            column.push_back(front + (is_odd && what % 2 == 0 ? values[what / 2 % std::size(values)]
                                      : what % 3 == 0         ? words[(shift + what / 3 % forms) % words.size()]
                                                              : std::to_string(what >> (44 + what % 20))));
        }
        const CellTable table(column);
        for (const Cpu& cpu : runnable_cpus()) {
            std::size_t& read = cpu.vbmi && cpu.pclmul ? by_vectors : plainly;
            for (const csv::Kind kind : {csv::Kind::int64, csv::Kind::uint64, csv::Kind::float64, csv::Kind::float32}) {
                csv::Around around(&layout.missing);
                const csv::Spec spec{0, kind, true, 7, {}, true};
                const csv::NumberForm form{kind, '.', 7, &around};
                std::vector<std::byte> out(column.size() * csv::size_of(kind));
                for (std::size_t i = 0; i < column.size(); ++i) {
                    const std::size_t first = i;
                    const std::size_t next = csv::read_cells(table.column(), first, column.size(), form,
                                                             out.data() + first * csv::size_of(kind), cpu);
                    check(next >= first && next <= column.size());
                    for (; i < next; ++i, ++read)
                        check(csv::number_in(column[i], spec, layout, 0, 0) == bits_at(out, i, kind), column[i]);
                }
            }
        }
    }
    // Up to ten ways have no vectors.
    check(by_vectors == 0 || by_vectors > plainly / 6);
}

/// Values in their plainest form are all read, except the last ones of the file.
void test_all_plain() {
    std::mt19937_64 random(4);
    std::vector<std::string> wholes, decimals;
    for (int k = 0; k < 1000; ++k) {
        const std::string digits = std::to_string(random() >> (2 + random() % 60));
        wholes.push_back((k % 3 == 0 ? "-" : "") + digits);
        const std::string few = digits.substr(0, 7);
        decimals.push_back((k % 5 == 0 ? "-" : "") + few + "." + std::to_string(random() % 100'000'000));
    }
    constexpr std::size_t most_near_end = 41; // bytes that are looked at together; a row takes two at least
    for (const Cpu& cpu : runnable_cpus()) {
        std::vector<std::byte> out(8000);
        const CellTable whole(wholes), decimal(decimals);
        const csv::NumberForm int64{csv::Kind::int64, '.', std::nullopt},
            float64{csv::Kind::float64, '.', std::nullopt};
        check(csv::read_cells(whole.column(), 0, 1000, int64, out.data(), cpu) >= 1000 - most_near_end / 2);
        check(csv::read_cells(decimal.column(), 0, 1000, float64, out.data(), cpu) >= 1000 - most_near_end / 2);
    }
}

} // namespace

int main() {
    test_numbers();
    test_columns_of_one_form();
    test_what_is_around();
    test_all_plain();
}

#include "core/csv/cells.hpp"

#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <vector>

#include "base/cpus.hpp"
#include "check.hpp"
#include "core/csv/number.hpp"

using namespace headrace;
using headrace::testing::check;
using headrace::testing::runnable_cpus;

namespace {

/// A column of a table of two columns, the other one of which is empty.
class Table {
  public:
    explicit Table(const std::vector<std::string>& values, bool has_quotes = true) : has_quotes_(has_quotes) {
        before_.push_back(~std::uint32_t{0});
        for (const std::string& value : values) {
            text_ += value;
            ends_.push_back(static_cast<std::uint32_t>(text_.size()));
            text_ += ',';
            ends_.push_back(static_cast<std::uint32_t>(text_.size()));
            before_.push_back(static_cast<std::uint32_t>(text_.size()));
            text_ += '\n';
        }
        text_.shrink_to_fit();
    }

    [[nodiscard]] csv::GridColumn column() const noexcept {
        return {text_.data(), text_.data() + text_.size(), before_.data(), ends_.data(), 1, 2, has_quotes_};
    }

  private:
    bool has_quotes_;
    std::string text_;
    std::vector<std::uint32_t> ends_, before_;
};

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
    const Table table(values);
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
            if (form.kind == csv::Kind::float64 && !is_empty && values[i].find(form.decimal) == std::string::npos)
                check(!csv::facts_of(values[i], form.decimal).wide, values[i]);
        }
    }
    return plain;
}

std::string random_number(std::mt19937_64& random) {
    static const std::string alphabet = "0123456789.-+e ,\"\xff/:";
    std::string text;
    const unsigned most = static_cast<unsigned>(random() % (random() % 4 == 0 ? 36 : 22));
    for (unsigned k = 0; k < most; ++k) text += alphabet[random() % 10];
    if (!text.empty() && random() % 2 == 0) text[random() % text.size()] = '.';
    if (!text.empty() && random() % 10 == 0) text[random() % text.size()] = alphabet[random() % alphabet.size()];
    if (random() % 4 == 0) text = "-" + text;
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
        const Table whole(wholes), decimal(decimals);
        const csv::NumberForm int64{csv::Kind::int64, '.', std::nullopt},
            float64{csv::Kind::float64, '.', std::nullopt};
        check(csv::read_cells(whole.column(), 0, 1000, int64, out.data(), cpu) >= 1000 - most_near_end / 2);
        check(csv::read_cells(decimal.column(), 0, 1000, float64, out.data(), cpu) >= 1000 - most_near_end / 2);
    }
}

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char byte : text) out += byte == '"' ? std::string(2, '"') : std::string(1, byte);
    return out + '"';
}

void test_texts() {
    std::mt19937_64 random(5);
    for (int round = 0; round < 400; ++round) {
        std::vector<std::string> fields, expected;
        const bool has_quotes = round % 3 != 0;
        const std::size_t longest = round % 4 == 0 ? 1400 : round % 4 == 1 ? 130 : 20;
        for (std::size_t i = 0; i < 60; ++i) {
            std::string text;
            const std::size_t size = random() % 10 == 0 ? 62 + random() % 6 : random() % longest;
            for (std::size_t k = 0; k < size; ++k) text += "abc\xc3\xa9\n,\""[random() % (has_quotes ? 8 : 5)];
            const bool is_quoted = text.find_first_of("\"\n,") != std::string::npos || (has_quotes && i % 2 == 0);
            fields.push_back(is_quoted ? quoted(text) : text);
            expected.push_back(text);
        }
        const Table table(fields, has_quotes);
        std::size_t bytes = 0;
        for (const std::string& field : fields) bytes += field.size();
        for (const Cpu& cpu : runnable_cpus()) {
            std::vector<std::byte> out(bytes + csv::spare_bytes, std::byte{'-'});
            std::vector<std::int64_t> ends(fields.size());
            std::optional<char> quote;
            if (has_quotes) quote = '"';
            const std::byte* const end =
                csv::copy_cells(table.column(), fields.size(), quote, out.data(), ends.data(), 1000, cpu);
            std::size_t at = 0;
            for (std::size_t i = 0; i < fields.size(); ++i) {
                const std::string found(reinterpret_cast<const char*>(out.data()) + at,
                                        static_cast<std::size_t>(ends[i]) - 1000 - at);
                check(found == expected[i], fields[i]);
                at = static_cast<std::size_t>(ends[i]) - 1000;
            }
            check(end == out.data() + at);
        }
    }
}

/// A file may change after its fields were found: then quotes are anywhere. Texts never take more than their fields.
void test_changed_texts() {
    std::mt19937_64 random(6);
    for (int round = 0; round < 600; ++round) {
        std::vector<std::string> fields;
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < 40; ++i) {
            std::string& field = fields.emplace_back();
            for (std::size_t size = random() % (i % 8 == 0 ? 300 : 80); size != 0; --size) field += "a\""[random() % 2];
            bytes += field.size();
        }
        const Table table(fields);
        for (const Cpu& cpu : runnable_cpus()) {
            std::vector<std::byte> out(bytes + csv::spare_bytes);
            std::vector<std::int64_t> ends(fields.size());
            const std::byte* const end =
                csv::copy_cells(table.column(), fields.size(), '"', out.data(), ends.data(), 0, cpu);
            check(end <= out.data() + bytes && std::ranges::is_sorted(ends) && ends.back() == end - out.data());
        }
    }
}

} // namespace

int main() {
    test_numbers();
    test_all_plain();
    test_texts();
    test_changed_texts();
}

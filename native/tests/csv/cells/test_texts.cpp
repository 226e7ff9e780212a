#include "core/csv/cells/texts.hpp"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/cpus.hpp"
#include "check.hpp"
#include "csv/cells/table.hpp"

using namespace headrace;
using headrace::testing::CellTable;
using headrace::testing::check;
using headrace::testing::runnable_cpus;

namespace {

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
        const CellTable table(fields, has_quotes);
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
        const CellTable table(fields);
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
    test_texts();
    test_changed_texts();
}

#include "core/csv/cells/four_values.hpp"

#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "csv/cells/table.hpp"

using namespace headrace;
using headrace::testing::CellTable;
using headrace::testing::check;

namespace {

#if defined(HEADRACE_X86)
/// The mask of a value: bits of those of its bytes that `is` holds for, if the value ends with 16 bits.
template <typename Is> std::uint64_t mask_of(const std::string& value, Is&& is) {
    std::uint64_t mask = 0;
    for (std::size_t i = 0; i < value.size(); ++i)
        if (is(value[i])) mask |= std::uint64_t{1} << (16 - value.size() + i);
    return mask;
}

HEADRACE_FOR_CELLS bool load(csv::FourValues& four, const csv::GridColumn& column, std::size_t row) {
    if (!four.load(column, row)) return false;
    four.split<true>(_mm512_set1_epi8('.'));
    return true;
}

bool is_plain(const std::string& value) {
    std::size_t at = value.starts_with('-') ? 1 : 0, digits = 0, marks = 0;
    for (; at < value.size(); ++at) {
        if (value[at] == '.' && at + 1 < value.size() && value[at + 1] != '.') ++marks;
        else if (value[at] >= '0' && value[at] <= '9') ++digits;
        else return false;
    }
    return value.empty() || (digits != 0 && marks < 2);
}

void test_masks() {
    std::mt19937_64 random(2);
    std::size_t good = 0;
    for (int round = 0; round < 20'000; ++round) {
        std::vector<std::string> values{"sixteen bytes or more: long"};
        for (int k = 0; k < 4; ++k) {
            std::string& value = values.emplace_back();
            const std::size_t size = random() % (round % 50 == 0 ? 18 : 17);
            for (std::size_t i = 0; i < size; ++i) value += "0123456789.-x"[random() % (round % 2 == 0 ? 13 : 10)];
            if (!value.empty() && random() % 3 == 0) value[random() % value.size()] = '.';
            if (!value.empty() && random() % 4 == 0) value[0] = '-';
        }
        const CellTable table(values);
        csv::FourValues four;
        bool fits = true, plain = true;
        for (int k = 1; k <= 4; ++k) {
            fits = fits && values[static_cast<std::size_t>(k)].size() <= 16;
            plain = plain && is_plain(values[static_cast<std::size_t>(k)]);
        }
        check(load(four, table.column(), 1) == fits);
        if (!fits) continue;
        check((four.wrong == 0) == plain);
        good += plain;
        for (std::size_t k = 0; k < 4; ++k) {
            const std::string& value = values[k + 1];
            const auto part = [&](std::uint64_t mask) { return mask >> 16 * k & 0xFFFF; };
            check(part(four.all) == mask_of(value, [](char) { return true; }));
            check(part(four.digits) == mask_of(value, [](char byte) { return byte >= '0' && byte <= '9'; }));
            check((part(four.empty()) != 0) == value.empty());
            check((part(csv::FourValues::flags_of(four.minuses)) != 0) == value.starts_with('-'));
            if (plain) check((part(four.real()) != 0) == (value.find('.') != std::string::npos));
        }
        check(!load(four, table.column(), 0), "the first one is long");
    }
    check(good > 1000);
    const CellTable near({"1", "2", "3", "4"});
    csv::FourValues four;
    check(!load(four, near.column(), 0), "too near the start");
}
#endif

} // namespace

int main() {
#if defined(HEADRACE_X86)
    if (csv::has_vectors(this_cpu)) test_masks();
#endif
}

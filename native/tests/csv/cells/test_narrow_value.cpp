#include "core/csv/cells/narrow_value.hpp"

#include <cmath>
#include <random>
#include <string>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

#if defined(HEADRACE_X86)
namespace {

using csv::narrow_bytes;

/// What a value of digits, a sign and a mark means, found slowly; `is_number` is false for any other.
struct Expected {
    std::uint64_t mantissa = 0;
    unsigned fraction = 0;
    bool negative = false, has_mark = false, is_number = true;

    Expected(const std::string& text, bool may_have_mark) {
        std::size_t digits = 0;
        for (std::size_t i = 0; i < text.size(); ++i) {
            const char c = text[i];
            if (c == '-' && i == 0) negative = true;
            else if (c == '.' && may_have_mark && !has_mark) has_mark = true;
            else if (c >= '0' && c <= '9') {
                mantissa = mantissa * 10 + static_cast<std::uint64_t>(c - '0');
                fraction += has_mark;
                ++digits;
            } else is_number = false;
        }
        is_number &= digits != 0;
        // A mark has a digit behind it, or is the last byte and has one before it.
        const std::size_t mark = text.find('.');
        if (has_mark && mark + 1 == text.size()) is_number &= mark != 0 && text[mark - 1] != '-';
    }
};

template <bool has_mark> HEADRACE_FOR_NARROW void reads(const std::string& before, const std::string& text) {
    const std::string all = before + text; // no byte behind the value
    csv::VectorNumber number;
    csv::read_narrow_by_avx2<has_mark>(all.data() + before.size(), text.size(), _mm_set1_epi8('.'), number);
    const Expected expected(text, has_mark);
    check((number.wrong == 0) == expected.is_number);
    if (!expected.is_number) return;
    check(number.mantissa == expected.mantissa && number.fraction == expected.fraction);
    check((number.sign != 0) == expected.negative && (number.marks != 0) == expected.has_mark);
}

void test_random_values() {
    std::mt19937_64 random(1);
    const std::string some = "0123456789012345678901234567890123456789.-", any = "0123456789.-+eE ,\"/:\x7f\x80\xff\n";
    for (int round = 0; round < 200'000; ++round) {
        const std::string& from = random() % 2 != 0 ? some : any;
        std::string text(1 + random() % narrow_bytes, ' '), before(narrow_bytes - text.size(), ' ');
        for (char& c : text) c = from[random() % from.size()];
        for (char& c : before) c = any[random() % any.size()];
        reads<true>(before, text);
        reads<false>(before, text);
    }
}

void test_each_place_of_the_mark() {
    for (std::size_t size = 1; size <= narrow_bytes; ++size)
        for (std::size_t mark = 0; mark <= size; ++mark)
            for (const bool negative : {false, true}) {
                std::string text = std::string("9876543210123456").substr(0, size);
                if (mark < size) text[mark] = '.';
                if (negative) text[0] = '-';
                const std::string before(narrow_bytes - size, '.');
                reads<true>(before, text);
                reads<false>(before, text);
            }
}

} // namespace

int main() {
    if (!this_cpu.avx2 || !this_cpu.bmi2) return 0;
    test_random_values();
    test_each_place_of_the_mark();
}
#else
int main() {}
#endif

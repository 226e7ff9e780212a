#include "core/text/decimal.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "check.hpp"

using namespace headrace;
using headrace::testing::check;

namespace {

double expected_of(const std::string& text, double) { return std::strtod(text.c_str(), nullptr); }
float expected_of(const std::string& text, float) { return std::strtof(text.c_str(), nullptr); }

/// Compares one number with the C library, which rounds correctly. Returns whether the fast way knew it.
template <typename T> bool compare(std::uint64_t mantissa, std::int64_t exponent) {
    T value = -1;
    if (!round_decimal(mantissa, exponent, value)) return false;
    const std::string text = std::to_string(mantissa) + "e" + std::to_string(exponent);
    check(value == expected_of(text, T{}), text);
    if constexpr (sizeof(T) == sizeof(double)) {
        const double other = round_any_decimal(mantissa, exponent);
        check(std::isnan(other) || other == value, text);
    }
    return true;
}

template <typename T> void test_type() {
    std::mt19937_64 random(7);
    std::size_t known = 0, normal = 0;
    const int power = std::numeric_limits<T>::max_exponent10;
    for (int round = 0; round < 200'000; ++round) {
        const std::uint64_t mantissa = random() >> random() % 64;
        const auto exponent = static_cast<std::int64_t>(random() % static_cast<unsigned>(2 * power + 60)) - power - 40;
        known += compare<T>(mantissa, exponent);
        const double size = std::log10(static_cast<double>(mantissa) + 1) + static_cast<double>(exponent);
        normal += size < power - 1 && size > 1 - power;
    }
    check(known >= normal, "the slower way is for numbers that are not normal");
    for (int round = 0; round < 50'000; ++round) { // halfway between two floats, and beside it
        const std::uint64_t odd = (random() >> (64 - std::numeric_limits<T>::digits - 1)) | 1;
        for (const std::int64_t exponent : {-1, 0, 1, 3})
            for (const std::uint64_t step : {0, 1}) compare<T>(odd - step, exponent);
    }
}

/// Short numbers have a way of their own, which is as exact.
void test_any_size() {
    std::mt19937_64 random(8);
    for (int round = 0; round < 200'000; ++round) {
        const std::uint64_t mantissa = random() >> random() % 64;
        const auto exponent = static_cast<std::int64_t>(random() % 50) - 25;
        double value = -1;
        check(round_decimal(mantissa, exponent, value));
        check(value == round_any_decimal(mantissa, exponent),
              std::to_string(mantissa) + "e" + std::to_string(exponent));
    }
}

void test_edges() {
    double value = 0;
    check(round_decimal(0, 300, value) && value == 0 && round_decimal(0, -300, value) && value == 0);
    check(!round_decimal(1, 309, value) && !round_decimal(1, -400, value) && !round_decimal(18, 308, value));
    check(!round_decimal(5, -324, value), "subnormal");
    check(round_decimal(17976931348623157, 292, value) && value == std::numeric_limits<double>::max());
    check(round_decimal(22250738585072014, -324, value) && value == std::numeric_limits<double>::min());
    float single = 0;
    check(round_decimal(34028234663852886U, 22, single) && single == std::numeric_limits<float>::max());
    check(!round_decimal(34028236, 31, single), "rounds to infinity");
    for (std::int64_t q = -342; q <= 308; ++q)
        for (const std::uint64_t mantissa : {1U, 7U, 12345678U, 4294967295U}) compare<double>(mantissa, q);
    for (std::int64_t q = -64; q <= 40; ++q) compare<float>(123456789, q);
}

void test_digits() {
    std::uint64_t word = 0, digits = 0;
    for (unsigned size = 0; size <= 8; ++size)
        for (const char other : {'/', ':', ' ', '.', '\0', '\xb0', '\xb9', '\xff'})
            for (const char after : {'5', '\xff'}) {
                std::string text = std::string("01234567").substr(8 - size) + other + std::string(8, after);
                std::memcpy(&word, text.data(), sizeof word);
                check(count_digits(word, digits) == size, text);
                check(join_digits(digits) == (size == 0 ? 0 : std::stoull(text.substr(0, size))), text);
            }
    for (const std::string text : {"", "1", "12345678", "123456789", "1234567890123456789", "007"})
        for (const std::string after : {"", "x", ",123456789"}) {
            const std::string whole = text + after;
            std::uint64_t value = 0;
            check(read_digits(whole.data(), whole.data() + whole.size(), value) == whole.data() + text.size());
            check(skip_digits(whole.data(), whole.data() + whole.size()) == whole.data() + text.size());
            check(value == (text.empty() ? 0 : std::stoull(text)), whole);
        }
    check(is_digit('0') && is_digit('9') && !is_digit('/') && !is_digit(':'));
}

} // namespace

int main() {
    test_type<double>();
    test_type<float>();
    test_edges();
    test_any_size();
    test_digits();
}

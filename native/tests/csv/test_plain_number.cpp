#include "core/csv/plain_number.hpp"

#include <random>
#include <string>

#include "check.hpp"
#include "core/csv/number.hpp"

using namespace headrace;
using headrace::testing::check;

namespace {

/// The text of a value, followed by readable bytes as in a file.
struct Padded {
    explicit Padded(const std::string& text)
        : bytes(text + ",7.5,-8\n" + std::string(plain_room, '9')),
          size(text.size()) {}
    static constexpr std::size_t plain_room = static_cast<std::size_t>(csv::plain_readable);
    std::string bytes;
    std::size_t size;
};

void compare(const std::string& text) {
    const Padded value(text);
    std::int64_t whole = 0;
    std::uint64_t bits = 0, positive = 0;
    if (csv::read_plain_whole<csv::Kind::int64>(value.bytes.data(), value.size, bits))
        check(csv::read_int64(text, whole) == text.size() && bits == static_cast<std::uint64_t>(whole), text);
    if (csv::read_plain_whole<csv::Kind::uint64>(value.bytes.data(), value.size, bits))
        check(csv::read_uint64(text, positive) == text.size() && bits == positive, text);
    csv::PlainDecimal number;
    if (!number.read(value.bytes.data(), value.size, '.')) return;
    double read = 0, expected = 0;
    if (number.round(read))
        check(csv::read_float64(text, '.', expected) == text.size() &&
                  std::bit_cast<std::uint64_t>(read) == std::bit_cast<std::uint64_t>(expected),
              text);
    float small = 0, other = 0;
    if (number.round(small))
        check(csv::read_float32(text, '.', other) == text.size() &&
                  std::bit_cast<std::uint32_t>(small) == std::bit_cast<std::uint32_t>(other),
              text);
}

void test_against_the_slow_ways() {
    std::mt19937_64 random(2);
    const std::string alphabet = "0123456789.-+e x,\"\xff/:";
    for (int round = 0; round < 400000; ++round) {
        std::string text;
        const unsigned digits = random() % 3 == 0 ? 10 : 12, most = 1 + random() % 26;
        for (unsigned k = 0; k < most; ++k) text += alphabet[random() % digits];
        if (random() % 10 == 0) text[random() % text.size()] = alphabet[random() % alphabet.size()];
        if (random() % 4 == 0) text = "-" + text;
        compare(text);
    }
    for (const char* text : {"9223372036854775807", "9223372036854775808", "-9223372036854775808",
                             "-9223372036854775807", "9999999999999999999", "-0", "0", "-", "", ".", "-.", "1.", ".1",
                             "0.1", "-0.0", "9007199254740993", "0.12345678901234567", "1234567.890123456789"})
        compare(text);
}

void test_that_plain_ones_are_read() {
    std::uint64_t bits = 0;
    for (const std::string text : {"7", "-12345678", "123456789", "-1234567890123456", "1234567890123456789"})
        check(csv::read_plain_whole<csv::Kind::int64>(Padded(text).bytes.data(), text.size(), bits), text);
    csv::PlainDecimal number;
    for (const std::string text : {"1.5", "-0.123456789012345678", "1234567.25", "12345678", "318.1982"})
        check(number.read(Padded(text).bytes.data(), text.size(), '.'), text);
    check(number.read(Padded("3,75").bytes.data(), 4, ',') && number.mantissa == 375 && number.fraction == 2);
}

void test_truth() {
    for (const std::string text : {"True", "true", "TRUE", "False", "false", "FALSE"}) {
        std::uint64_t bits = 7;
        check(csv::read_plain_truth(Padded(text).bytes.data(), text.size(), bits), text);
        check(bits == (text.size() == 4 ? 1U : 0U));
    }
    for (const std::string text : {"", "1", "tRUE", "tru", "Trues", "FALSEx", "False ", "nope", "NOPES"}) {
        std::uint64_t bits = 0;
        check(!csv::read_plain_truth(Padded(text).bytes.data(), text.size(), bits), text);
    }
}

} // namespace

int main() {
    test_against_the_slow_ways();
    test_that_plain_ones_are_read();
    test_truth();
}

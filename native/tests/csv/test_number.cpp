#include "core/csv/number.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "check.hpp"

using namespace headrace::csv;
using headrace::testing::check;

namespace {

double float64(std::string_view text, char decimal = '.') {
    double value = 0;
    check(read_float64(text, decimal, value) == text.size(), text);
    return value;
}

std::string written(double value) {
    char room[most_digits];
    return {room, write_float64(room, value, '.')};
}

void test_reading() {
    check(float64("0.1") == 0.1 && float64("-12.5e-3") == -0.0125 && float64("+7") == 7);
    check(float64(".5") == 0.5 && float64("5.") == 5 && float64("1,5", ',') == 1.5);
    check(float64("9007199254740993") == 9007199254740992.0, "ties go to the even one");
    check(float64("9007199254740993.0000000000000000000001") == 9007199254740994.0);
    check(float64("4.9e-324") == std::numeric_limits<double>::denorm_min());
    check(float64("1e-400") == 0 && std::isinf(float64("-infinity")));
    check(std::signbit(float64("-0")) && float64("2.2250738585072014e-308") == std::numeric_limits<double>::min());
    double value = 0;
    for (const std::string_view text : {"", "-", ".", "e5", "x", "+-1", "-.e1", "1e400", "-1e309", "1.8e308"})
        check(read_float64(text, '.', value) == 0, text);
    check(read_float64("1e", '.', value) == 1 && read_float64("12x", '.', value) == 2 &&
          read_float64("1.5,2", '.', value) == 3);
    float single = 0;
    check(read_float32("1.00000017881393432617187499", '.', single) != 0 && single == 1.00000011920928955078125F,
          "rounded once");
}

void test_integers() {
    std::int64_t value = 0;
    check(read_int64("-9223372036854775808", value) == 20 && value == std::numeric_limits<std::int64_t>::min());
    check(read_int64("9223372036854775808", value) == 0 && read_int64("x", value) == 0 && read_int64("", value) == 0);
    std::uint64_t whole = 0;
    check(read_uint64("18446744073709551615", whole) == 20 && whole == std::numeric_limits<std::uint64_t>::max());
    check(read_uint64("-1", whole) == 0 && read_uint64("18446744073709551616", whole) == 0);
}

void test_kinds() {
    check(facts_of("12", '.').kind == NumberKind::whole && facts_of("1e5", '.').kind == NumberKind::real);
    check(facts_of("9223372036854775808", '.').kind == NumberKind::positive &&
          facts_of("-9223372036854775809", '.').kind == NumberKind::huge);
    check(facts_of("12x", '.').kind == NumberKind::none && facts_of("007", '.').padded && !facts_of("0", '.').padded);
    check(facts_of("9007199254740993", '.').wide && !facts_of("9007199254740992", '.').wide);
    check(!facts_of("9223372036854775808", '.').wide && !facts_of("-9007199254740994", '.').wide &&
          facts_of("18446744073709551617", '.').wide);
}

void test_plain_numbers() {
    for (const std::string text :
         {"0", "-7", "+7", "007", "00", "1.", "1.5", "-01.5e-12", "3E5", "9007199254740993", "123456789012345678"})
        for (const std::string after : {"", ",1", " ", "x"}) {
            std::size_t size = 0;
            const NumberFacts plain = plain_facts_of(text + after, '.', size), all = facts_of(text, '.');
            check(size == text.size(), text);
            check(plain.kind == all.kind && plain.padded == all.padded && plain.wide == all.wide, text);
        }
    for (const std::string_view text : {"", "-", "x", ".5", "e5", "1e", "1e+", "1e123", "1234567890123456789", "inf"}) {
        std::size_t size = 1;
        (void)plain_facts_of(text, '.', size);
        check(size == 0, text);
    }
}

void test_writing() {
    check(written(1) == "1.0" && written(0.1) == "0.1" && written(1e22) == "1e+22" && written(-0.0) == "-0.0");
    check(written(1e-5) == "1e-05" && written(0.0001) == "0.0001" &&
          written(123456789012345680.0) == "1.2345678901234568e+17");
    check(written(std::nan("")) == "nan" && written(-std::numeric_limits<double>::infinity()) == "-inf");
    check(written(std::numeric_limits<double>::max()) == "1.7976931348623157e+308");
}

} // namespace

int main() {
    test_reading();
    test_integers();
    test_kinds();
    test_plain_numbers();
    test_writing();
}

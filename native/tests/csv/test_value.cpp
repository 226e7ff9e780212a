#include "core/csv/value.hpp"

#include <bit>
#include <cmath>

#include "check.hpp"

using namespace headrace;
using headrace::testing::check;
using headrace::testing::fault_of;

namespace {

const csv::Layout layout{{}, 1, csv::Words({"", "NA"})};

std::uint64_t number(std::string_view text, csv::Kind kind, bool exact = false) {
    csv::Spec spec;
    spec.kind = kind;
    spec.exact = exact;
    return csv::number_in(text, spec, layout, 5, 2);
}

double real(std::string_view text) { return std::bit_cast<double>(number(text, csv::Kind::float64)); }

void test_numbers() {
    check(number(" 7\t", csv::Kind::int64) == 7 && number("3.0", csv::Kind::int64) == 3);
    check(number("-2e1", csv::Kind::int64) == static_cast<std::uint64_t>(-20));
    check(number("18446744073709551615", csv::Kind::uint64) == UINT64_MAX);
    check(real(" 1e3") == 1000 && std::isnan(real("NA")) && std::isnan(real("  ")));
    check(std::bit_cast<float>(static_cast<std::uint32_t>(number("0.5", csv::Kind::float32))) == 0.5F);
    check(number("1", csv::Kind::boolean) == 1 && number("FALSE", csv::Kind::boolean) == 0);
    csv::Spec spec{0, csv::Kind::int64, true, 42, ""};
    check(csv::number_in("NA", spec, layout, 0, 0) == 42);
}

void test_faults() {
    for (const std::string_view text : {"x", "1.5", "9223372036854775808", "1 2"}) {
        const FormatError error = fault_of([&] { (void)number(text, csv::Kind::int64); });
        check(error.fault == Fault::wrong_kind && error.offset == 5 && error.feature == 2 && error.expected == 1);
    }
    for (const std::string_view text : {"9007199254740993.0", "-9007199254740993.0", "9007199254740992.0", "1e300"})
        check(fault_of([&] { (void)number(text, csv::Kind::int64); }).fault == Fault::wrong_kind);
    for (const std::string_view text :
         {"1e-400", "-1e-400", "3.00000000000000000000001", "300000000000000000000001e-23"})
        check(fault_of([&] { (void)number(text, csv::Kind::int64); }).fault == Fault::wrong_kind);
    for (const std::string_view text : {"3.", "+3.000", "300e-2", "0.003E+3", ".3e1", "3e-0"})
        check(number(text, csv::Kind::int64) == 3);
    for (const std::string_view text : {"0e-400", "-0.0", "0.000", "0e99999999999"})
        check(number(text, csv::Kind::uint64) == 0);
    check(number("9007199254740991.0", csv::Kind::int64) == 9007199254740991);
    check(fault_of([] { (void)number("", csv::Kind::uint64); }).fault == Fault::missing);
    check(fault_of([] { (void)number("-1", csv::Kind::uint64); }).fault == Fault::wrong_kind);
    check(fault_of([] { (void)number("2", csv::Kind::boolean); }).fault == Fault::wrong_kind);
    check(fault_of([] { (void)number("9007199254740993", csv::Kind::float64, true); }).fault == Fault::wrong_kind);
    check(std::bit_cast<double>(number("9007199254740992", csv::Kind::float64, true)) == 9007199254740992.0);
    check(std::bit_cast<double>(number("9007199254740993", csv::Kind::float64)) == 9007199254740992.0);
}

void test_sizes() {
    check(csv::size_of(csv::Kind::text) == 0 && csv::size_of(csv::Kind::boolean) == 1);
    check(csv::size_of(csv::Kind::float32) == 4 && csv::size_of(csv::Kind::uint64) == 8);
    csv::Spec spec;
    spec.exact = true;
    check(csv::may_be_rounded(spec, std::bit_cast<std::uint64_t>(-9007199254740994.0)));
    check(!csv::may_be_rounded(spec, std::bit_cast<std::uint64_t>(9007199254740991.0)));
}

} // namespace

int main() {
    test_numbers();
    test_faults();
    test_sizes();
}

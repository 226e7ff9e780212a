#include "core/csv/fields.hpp"

#include <random>

#include "check.hpp"
#include "csv/rows.hpp"

using namespace headrace;
using headrace::testing::bytes_of;
using headrace::testing::check;
using headrace::testing::fault_of;

namespace {

const csv::Dialect plain;

void test_one_field() {
    const csv::Field bare = csv::field_at("ab,c", 0, plain);
    check(bare.begin == 0 && bare.end == 2 && !bare.quoted && csv::inner_of("ab,c", bare) == "ab");
    const std::string_view row = "1,\"a \"\"b\"\", c\",2";
    const csv::Field quoted = csv::field_at(row, 2, plain);
    check(quoted.end == 14 && quoted.quoted && quoted.doubled && csv::inner_of(row, quoted) == "a \"\"b\"\", c");
    std::string text = "before ";
    csv::append_undoubled(csv::inner_of(row, quoted), '"', text);
    check(text == "before a \"b\", c");
    const csv::Field last = csv::field_at("1,", 2, plain);
    check(last.begin == 2 && last.end == 2);
    check(fault_of([] { (void)csv::field_at("1,\"x", 2, plain); }).fault == Fault::truncated);
    const FormatError error = fault_of([] { (void)csv::field_at("\"x\"y", 0, plain); });
    check(error.fault == Fault::structure && error.found == 3);
    csv::Dialect unquoted;
    unquoted.quote.reset();
    check(csv::field_at("\"a,b\"", 0, unquoted).end == 2);
}

void test_against_the_plain_way() {
    std::mt19937 random(6);
    for (int round = 0; round < 2000; ++round) {
        const std::string text = headrace::testing::random_rows(random, 5);
        const Bytes file = bytes_of(text);
        const csv::Scan found = csv::scan(file, 0, file.size(), plain, {}, true, 100);
        for (const Bytes bytes : csv::gather({&file, 1}, {}, found.starts, plain)) {
            const std::string_view row = csv::text_of(bytes);
            std::size_t at = 0, width = 0;
            std::vector<char> room;
            for (const Bytes expected : csv::fields_of(bytes, plain)) {
                const csv::Field field = csv::field_at(row, at, plain);
                check(row.substr(at, field.end - at) == csv::text_of(expected));
                std::string value;
                if (field.doubled) csv::append_undoubled(csv::inner_of(row, field), '"', value);
                else value = csv::inner_of(row, field);
                check(value == csv::value_of(expected, plain, room));
                at = field.end + 1;
                ++width;
            }
            check(csv::width_from(row, 0, plain) == width);
        }
    }
}

} // namespace

int main() {
    test_one_field();
    test_against_the_plain_way();
}

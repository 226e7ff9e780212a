#include "core/csv/layout.hpp"

#include "check.hpp"

using namespace headrace;
using headrace::testing::check;

namespace {

void test_words() {
    const csv::Words words({"", "NA", "n/a", "-999"});
    check(words.has("") && words.has("NA") && words.has("n/a") && words.has("-999"));
    check(!words.has("N") && !words.has("NAN") && !words.has(" ") && !words.has("na"));
    check(words.has_number('.') && !words.has_truth());
    check(!csv::Words({"NA"}).has("") && !csv::Words({"NA"}).has_number('.'));
    check(csv::Words({"FALSE"}).has_truth() && csv::Words({"1,5"}).has_number(','));
}

void test_truth() {
    std::uint64_t value = 7;
    check(csv::truth_of("TRUE") == 1 && csv::truth_of("False") == 0 && csv::truth_of("tRue") < 0);
    check(csv::truth_of("truer") < 0 && csv::truth_of("") < 0 && csv::truth_of("falsehood") < 0);
    check(csv::truth_at("true,1", value) == 4 && value == 1);
    check(csv::truth_at("FALSE", value) == 5 && value == 0 && csv::truth_at("nothing", value) == 0);
}

void test_trimmed() {
    check(csv::trimmed(" \t1 2\t ") == "1 2" && csv::trimmed("\t ").empty() && csv::trimmed("x") == "x");
}

} // namespace

int main() {
    test_words();
    test_truth();
    test_trimmed();
}

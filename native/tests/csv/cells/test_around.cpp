#include "core/csv/cells/around.hpp"

#include <string>
#include <vector>

#include "check.hpp"
#include "csv/cells/table.hpp"

using namespace headrace;
using headrace::testing::CellTable;
using headrace::testing::check;

namespace {

bool looks(csv::Around& around, const std::vector<std::string>& values) {
    const CellTable table(values);
    return around.look(table.column(), 0, values.size());
}

void test_blanks_and_signs() {
    csv::Around around;
    check(!looks(around, {"1", "-2", "", "x", "\"1\"", "1 "}) && !around.any());
    check(looks(around, {"1", " 2"}) && around.any());
    check(!looks(around, {" 2", "+3", "\t4", "   "})); // It is known that there are such values.
    csv::Around signs, blanks, longest;
    check(looks(signs, {"+1"}) && looks(blanks, {"1", "  "}));
    check(looks(longest, {"               1"}) && !looks(longest, {"1"}));
    csv::Around too_long;
    check(!looks(too_long, {"                1"}) && !too_long.any());
}

void test_words() {
    const csv::Words words({"", "NA", "+", "n/a", "a word of sixteen", "sixteen bytes ok", "one", "two"});
    csv::Around around(&words);
    check(!looks(around, {"", "1", "na", "NAN", "NA ", "a word of sixteen"}) && !around.any());
    check(looks(around, {"1", "NA"}) && around.any() && around.word_count() == 1);
    check(!looks(around, {"NA", " NA", "NA"}) && around.word_count() == 1);
    check(!looks(around, {" sixteen bytes ok"})); // with the blank, too long
    check(looks(around, {"sixteen bytes ok"}) && around.word_count() == 2);
    check(looks(around, {"  n/a"}) && looks(around, {"+"}) && around.word_count() == csv::Around::most_words);
    check(!looks(around, {"one", "two"}) && around.word_count() == csv::Around::most_words);
    const csv::Around::Word& word = around.word(0);
    check(std::string(word.bytes.data() + 14, 2) == "NA" && word.bytes[13] == '\0');
    check(word.places == 0xC000C000C000C000 && around.word(1).places == ~std::uint64_t{0});
    csv::Around without;
    check(!looks(without, {"NA"}) && !without.any());
}

} // namespace

int main() {
    test_blanks_and_signs();
    test_words();
}

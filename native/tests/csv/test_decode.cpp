#include "core/csv/decode.hpp"

#include <random>
#include <string>

#include "check.hpp"
#include "csv/rows.hpp"

using namespace headrace;
using headrace::testing::bytes_of;
using headrace::testing::check;
using headrace::testing::fault_of;

namespace {

const csv::Dialect plain;

csv::Layout layout(std::size_t width) { return {plain, width, csv::Words({"", "NA"})}; }

std::vector<std::string> texts_of(const csv::Column& column) {
    std::vector<std::string> out;
    const StringsView view = column.texts.view();
    for (std::size_t i = 0; i < view.count(); ++i) {
        const Bytes value = view.at(i);
        out.emplace_back(reinterpret_cast<const char*>(value.data()), value.size());
    }
    return out;
}

void test_decoding() {
    const auto pool = std::make_shared<Pool>(1 << 20);
    Spans spans;
    spans.payloads = {bytes_of("1, 2.5 ,\"x\"\"y\""), bytes_of("-7,NA,"), bytes_of("3.0,\"1e3\",z")};
    const csv::Decoder decoder(layout(3), {{2, csv::Kind::text, false, 0, ""},
                                           {0, csv::Kind::int64, false, 0, ""},
                                           {1, csv::Kind::float64, false, 0, ""}});
    const csv::Decoded decoded = decoder.decode(spans, pool);
    check(texts_of(decoded.columns[0]) == std::vector<std::string>{"x\"y", "", "z"});
    check(load_le<std::int64_t>(decoded.columns[1].numbers.data() + 8) == -7);
    check(load_le<std::int64_t>(decoded.columns[1].numbers.data() + 16) == 3);
    const auto second = load_le<double>(decoded.columns[2].numbers.data() + 8);
    check(load_le<double>(decoded.columns[2].numbers.data()) == 2.5 && second != second);
    check(load_le<double>(decoded.columns[2].numbers.data() + 16) == 1000);

    spans.payloads = {bytes_of("1,2,3"), bytes_of("x,2,3")};
    FormatError error = fault_of([&] { (void)decoder.decode(spans, pool); });
    check(error.fault == Fault::wrong_kind && error.record == 1 && error.feature == 1 && error.offset == 0);
    spans.payloads = {bytes_of("x,2")};
    check(fault_of([&] { (void)decoder.decode(spans, pool); }).fault == Fault::wrong_count, "the width comes first");
    check(fault_of([] { csv::Decoder(layout(1), {{1, csv::Kind::text, false, 0, ""}}); }).fault == Fault::range);
}

void test_facts() {
    Spans spans;
    spans.payloads = {bytes_of("1,a"), bytes_of("007,"), bytes_of("2.5,NA"), bytes_of("true,9223372036854775809"),
                      bytes_of("broken")};
    const auto facts = csv::examine(spans, layout(2));
    check(facts[0].whole == 2 && facts[0].padded == 1 && facts[0].real == 1 && facts[0].boolean == 1);
    check(facts[1].text == 1 && facts[1].empty == 1 && facts[1].missing == 1 && facts[1].positive == 1 &&
          facts[1].wide == 1);
}

/// Every field as text, against the slow way to split a row.
void test_texts_against_the_plain_way() {
    std::mt19937 random(4);
    const auto pool = std::make_shared<Pool>(1 << 20);
    std::vector<char> room;
    for (int round = 0; round < 1000; ++round) {
        const std::string text = headrace::testing::random_rows(random, 12);
        const csv::Scan found = csv::scan(bytes_of(text), 0, text.size(), plain, {}, true, 100);
        const Bytes files[] = {bytes_of(text)};
        for (const Bytes row : csv::gather(files, {}, found.starts, plain)) {
            const std::vector<Bytes> fields = csv::fields_of(row, plain);
            std::vector<csv::Spec> specs;
            for (std::size_t k = 0; k < fields.size(); ++k) {
                specs.push_back({k, csv::Kind::text, false, 0, ""});
                specs.back().is_bytes = random() % 2 == 0;
            }
            Spans spans;
            spans.payloads = {row, row};
            const csv::Decoded decoded = csv::Decoder(layout(fields.size()), specs).decode(spans, pool);
            for (std::size_t k = 0; k < fields.size(); ++k) {
                const std::string value(csv::value_of(fields[k], plain, room));
                check(texts_of(decoded.columns[k]) == std::vector<std::string>{value, value}, value);
                check(!decoded.columns[k].no_text);
            }
        }
    }
}

void test_encodings() {
    const auto pool = std::make_shared<Pool>(1 << 20);
    auto charset = std::make_shared<csv::Charset>();
    (*charset)[0x69] = "\xc3\xa9"; // e9, as in latin-1
    Spans spans;
    spans.payloads = {bytes_of("abc"), bytes_of("caf\xe9"), bytes_of("\"\"\"\xe9\"")};
    csv::Spec spec{0, csv::Kind::text, true, 0, "missing \xe9"};
    spec.charset = charset;
    csv::Decoded decoded = csv::Decoder(layout(1), {spec}).decode(spans, pool);
    check(texts_of(decoded.columns[0]) == std::vector<std::string>{"abc", "caf\xc3\xa9", "\"\xc3\xa9"});
    check(!decoded.columns[0].no_text);
    spans.payloads = {bytes_of("NA"), bytes_of("\xea"), bytes_of("\xeb")};
    decoded = csv::Decoder(layout(1), {spec}).decode(spans, pool);
    check(decoded.columns[0].no_text == 1 && texts_of(decoded.columns[0])[0] == "missing \xc3\xa9");
    spec.charset.reset();
    spans.payloads = {bytes_of("ok"), bytes_of("\xc3"), bytes_of("\xa9")}; // valid only together
    check(csv::Decoder(layout(1), {spec}).decode(spans, pool).columns[0].no_text == 1);
    spec.is_bytes = true;
    check(!csv::Decoder(layout(1), {spec}).decode(spans, pool).columns[0].no_text);
}

/// The fast ways of counting against a row at a time of one column, and threads against one.
void test_facts_of_all() {
    std::mt19937 random(9);
    static const std::string values[] = {"1",
                                         "-7",
                                         "007",
                                         "2.5",
                                         "1e5",
                                         "1e400",
                                         "true",
                                         "False",
                                         "TRUEx",
                                         "NA",
                                         "",
                                         " 1",
                                         "x",
                                         "inf",
                                         "-3.0",
                                         "9223372036854775808",
                                         "-9223372036854775809",
                                         "\"1\"",
                                         "\"a\"\"b\"",
                                         "9007199254740993",
                                         "-0",
                                         "+5",
                                         "\"x",
                                         "5.",
                                         ".5",
                                         "1e"};
    std::vector<std::string> rows;
    for (int i = 0; i < 5000; ++i) {
        std::string row = values[random() % std::size(values)];
        for (std::size_t k = 1, fields = random() % 20 == 0 ? 2 : 3; k < fields; ++k)
            row += "," + values[random() % std::size(values)];
        rows.push_back(row);
    }
    Spans spans;
    for (const std::string& row : rows) spans.payloads.push_back(bytes_of(row));
    const auto whole = csv::examine(spans, layout(3)), shared = csv::examine(spans, layout(3), false, 4);
    csv::Layout unusual = layout(3); // a number that may mean a missing value turns the fast ways off
    unusual.missing = csv::Words({"", "NA", "77777", "TRUE"});
    const auto slow = csv::examine(spans, unusual);
    for (std::size_t k = 0; k < 3; ++k) {
        check(whole[k].whole == shared[k].whole && whole[k].text == shared[k].text && whole[k].real == shared[k].real);
        for (const auto field :
             {&csv::ColumnFacts::empty, &csv::ColumnFacts::missing, &csv::ColumnFacts::whole,
              &csv::ColumnFacts::positive, &csv::ColumnFacts::huge, &csv::ColumnFacts::real, &csv::ColumnFacts::boolean,
              &csv::ColumnFacts::text, &csv::ColumnFacts::padded, &csv::ColumnFacts::wide, &csv::ColumnFacts::negative})
            check(whole[k].*field == slow[k].*field && whole[k].*field != 0);
    }
    const auto early = csv::examine(spans, layout(3), true);
    check(early[0].text + early[0].padded == 1 && early[0].whole < whole[0].whole);
}

} // namespace

int main() {
    test_texts_against_the_plain_way();
    test_encodings();
    test_facts_of_all();
    test_decoding();
    test_facts();
}

#include "core/csv/decode.hpp"

#include "check.hpp"

using namespace headrace;
using headrace::testing::bytes_of;
using headrace::testing::check;
using headrace::testing::fault_of;

namespace {

const csv::Dialect plain;

csv::Layout layout(std::size_t width) { return {plain, width, csv::Words({"", "NA"})}; }

void test_decoding() {
    const auto pool = std::make_shared<Pool>(1 << 20);
    Spans spans;
    spans.payloads = {bytes_of("1, 2.5 ,\"x\"\"y\""), bytes_of("-7,NA,"), bytes_of("3.0,\"1e3\",z")};
    const csv::Decoder decoder(layout(3), {{2, csv::Kind::text, false, 0, ""},
                                           {0, csv::Kind::int64, false, 0, ""},
                                           {1, csv::Kind::float64, false, 0, ""}});
    const csv::Decoded decoded = decoder.decode(spans, pool);
    check(decoded.columns[0].texts[0] == "x\"y" && decoded.columns[0].texts[1].empty() &&
          decoded.columns[0].texts[2] == "z");
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

} // namespace

int main() {
    test_decoding();
    test_facts();
}

#include "check.hpp"
#include "core/csv/decode.hpp"
#include "core/csv/encode.hpp"
#include "core/csv/scan.hpp"

using namespace headrace;
using headrace::testing::bytes_of;
using headrace::testing::check;
using headrace::testing::fault_of;

namespace {

const csv::Dialect plain;

std::vector<std::int64_t> starts(std::string_view text, bool last = true) {
    return csv::scan(bytes_of(text), 0, text.size(), plain, {}, last, 100).starts;
}

void test_rows() {
    check(starts("1,2\n3,4\r\n5,6\r7,8") == std::vector<std::int64_t>{0, 4, 9, 13});
    check(starts("\n\r\n1\n\n2\n") == std::vector<std::int64_t>{3, 6});
    check(starts("\"a\nb\",c\nd\n") == std::vector<std::int64_t>{0, 8});
    check(starts("a\"b\nc\n") == std::vector<std::int64_t>{0, 4}, "a quote inside a field is text");
    check(starts("").empty());
    const csv::Row row = csv::row_at(bytes_of("ab\r\ncd"), 0, plain, true);
    check(row.end == 2 && row.next == 4);
}

void test_streams_wait() {
    for (const std::string_view text : {"1,2", "1,\"2", "1,2\r", "1,\"2\""}) {
        const FormatError error = fault_of([&] { (void)csv::row_at(bytes_of(text), 0, plain, false); });
        check(error.fault == Fault::truncated && error.offset == 0);
    }
    check(csv::row_at(bytes_of("1,2\n"), 0, plain, false).next == 4);
}

void test_faults() {
    FormatError error = fault_of([] { (void)csv::row_at(bytes_of("x\n1,\"a\"b\n"), 2, plain, true); });
    check(error.fault == Fault::structure && error.offset == 2 && error.found == 7);
    error = fault_of([] { (void)csv::row_at(bytes_of("1,\"a\n"), 0, plain, true); });
    check(error.fault == Fault::truncated && error.found == 2);
    error = fault_of([] { (void)csv::row_at(bytes_of("1"), 2, plain, true); });
    check(error.fault == Fault::truncated);
    const csv::Scan found = csv::scan(bytes_of("1,2\n3\n"), 0, 6, plain, {2, false}, true, 9);
    check(found.faulty && found.fault.fault == Fault::wrong_count && found.fault.record == 1 && found.fault.found == 1);
    const std::int64_t outside[1] = {-1};
    const Bytes files[1] = {bytes_of("1,2\n")};
    check(fault_of([&] { (void)csv::gather(files, {}, outside, plain); }).record == 0);
}

void test_values() {
    std::vector<char> room;
    const std::vector<Bytes> fields = csv::fields_of(bytes_of("1,\"a,\"\"b\"\"\",,\"\""), plain);
    check(fields.size() == 4);
    check(csv::value_of(fields[1], plain, room) == "a,\"b\"");
    check(csv::value_of(fields[2], plain, room).empty() && csv::value_of(fields[3], plain, room).empty());
    check(csv::find(bytes_of("ab\ncd\n"), 1) == 3 && csv::find(bytes_of("ab\ncd\n"), 4) == -1 && csv::find({}, 0) == 0);
}

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

void test_encoding() {
    const double numbers[2] = {1, -2.5};
    csv::Source text{csv::Values::text, 1, nullptr, {"a\"b", "c,d"}};
    const csv::Source sources[2] = {{csv::Values::float64, 1, reinterpret_cast<const std::byte*>(numbers), {}}, text};
    const std::vector<char> out = csv::encode(sources, 2, plain, "\r\n");
    check(std::string_view(out.data(), out.size()) == "1.0,\"a\"\"b\"\r\n-2.5,\"c,d\"\r\n");
    text.texts = {"", "\n"};
    const std::vector<char> alone = csv::encode({&text, 1}, 2, plain, "\n");
    check(std::string_view(alone.data(), alone.size()) == "\"\"\n\"\n\"\n");
}

} // namespace

int main() {
    test_rows();
    test_streams_wait();
    test_faults();
    test_values();
    test_decoding();
    test_facts();
    test_encoding();
}

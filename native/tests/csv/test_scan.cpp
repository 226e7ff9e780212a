#include "core/csv/scan.hpp"

#include "check.hpp"

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

} // namespace

int main() {
    test_rows();
    test_streams_wait();
    test_faults();
    test_values();
}

#include "core/riegeli/array_record.hpp"

#include "check.hpp"

using namespace headrace;
using namespace headrace::array_record;
using namespace headrace::testing;

namespace {

std::vector<Bytes> records_of(const EncodedFooter& encoded) {
    std::vector<Bytes> records;
    Bytes rest(encoded.values);
    for (const std::int64_t size : encoded.sizes) {
        records.push_back(rest.first(static_cast<std::size_t>(size)));
        rest = rest.subspan(static_cast<std::size_t>(size));
    }
    check(rest.empty());
    return records;
}

const Footer two = {5, "group_size:3", {64, 300}, {0, 70'000}, {3, 2}};

void test_footers() {
    const EncodedFooter encoded = encode_footer(two);
    check(encoded.values == from_hex("0a14 0801 1002 1805 220c 67726f75705f73697a653a33"
                                     "0840 1000 1803"
                                     "08ac02 10f0a204 1802"));
    const Footer back = parse_footer(records_of(encoded));
    check(back.num_records == 5 && back.options == two.options && back.offsets == two.offsets);
    check(back.decoded_sizes == two.decoded_sizes && back.record_counts == two.record_counts);
    check(parse_footer(records_of(encode_footer({}))).offsets.empty());
}

void inconsistent_footers_are_refused() {
    const EncodedFooter encoded = encode_footer(two);
    const auto records = records_of(encoded);
    check(fault_of([] { (void)parse_footer({}); }).fault == Fault::structure);
    check(fault_of([&] { (void)parse_footer(std::span(records).first(2)); }).fault == Fault::structure);
    const auto other_version = from_hex("0a06 0802 1000 1800");
    const Bytes only = other_version;
    check(fault_of([&] { (void)parse_footer({&only, 1}); }).fault == Fault::structure);
    Footer wrong = two;
    wrong.num_records = 6;
    const EncodedFooter other = encode_footer(wrong);
    check(fault_of([&] { (void)parse_footer(records_of(other)); }).fault == Fault::structure);
    wrong = two;
    wrong.offsets[0] = -1;
    const EncodedFooter huge = encode_footer(wrong);
    check(fault_of([&] { (void)parse_footer(records_of(huge)); }).fault == Fault::structure);
}

void test_postscripts() {
    const auto record = encode_postscript(84'685);
    check(record == from_hex("08cd9505 10dec0ebfe84cec3c971")); // as written by array_record 0.8.6
    check(parse_postscript(record) == 84'685);
    check(fault_of([] { (void)parse_postscript(bytes_of("")); }).fault == Fault::magic);
    check(fault_of([&] { (void)parse_postscript(Bytes(record).first(5)); }).fault == Fault::truncated);
}

} // namespace

int main() {
    test_footers();
    inconsistent_footers_are_refused();
    test_postscripts();
}

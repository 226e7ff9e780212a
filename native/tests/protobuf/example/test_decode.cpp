#include "core/protobuf/example/decode.hpp"

#include "check.hpp"
#include "protobuf/example/samples.hpp"

using namespace headrace;
using namespace headrace::testing;
using example::Kind;

namespace {

const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);

// The key and values of `packed` in pieces: unpacked 1, packed -1, and 300 in a second list.
constexpr std::string_view pieces = "0a1c0a1a0a016912151a0e08010a0affffffffffffffffff011a0308ac02";

std::vector<std::int64_t> integers(std::string_view hex, std::int64_t count) {
    const auto payload = from_hex(hex);
    Spans spans;
    spans.payloads = {bytes_of(payload)};
    const example::Decoder decoder({spec("i", Kind::int64, count)});
    const auto columns = decoder.decode(spans, pool);
    const auto* const numbers = reinterpret_cast<const std::int64_t*>(columns[0].numbers.data());
    return {numbers, numbers + columns[0].number_count};
}

void all_forms_of_a_list() {
    const std::vector<std::int64_t> expected = {1, -1, 300};
    check(integers(packed, 3) == expected && integers(packed, -1) == expected);
    check(integers(pieces, 3) == expected && integers(pieces, -1) == expected);
}

void faults_name_record_and_feature() {
    const auto payload = from_hex(packed);
    Spans spans;
    spans.payloads = {bytes_of(payload), bytes_of(payload)};
    const auto fault = [&](const example::Spec& wanted) {
        const example::Decoder decoder({spec("none", Kind::bytes, -1), wanted});
        return fault_of([&] { (void)decoder.decode(spans, pool); });
    };
    const FormatError count = fault(spec("i", Kind::int64, 2));
    check(count.fault == Fault::wrong_count && count.expected == 2 && count.found == 3 && count.record == 0 &&
          count.feature == 1);
    check(fault(spec("i", Kind::float32, 3)).fault == Fault::wrong_kind);
    check(fault(spec("j", Kind::int64, 1)).fault == Fault::missing);
    spans.payloads[1] = bytes_of("\x0a\x7f");
    check(fault(spec("i", Kind::int64, 3)).record == 1);
}

void faults_count_from_the_payload() {
    // The varint in the packed run, at byte 13 of the payload, does not end.
    const auto payload = from_hex("0a0c0a0a0a01691205"
                                  "1a030a0181");
    Spans spans;
    spans.payloads = {bytes_of(payload)};
    for (const std::int64_t count : {-1, 1}) {
        const example::Decoder decoder({spec("i", Kind::int64, count)});
        const FormatError error = fault_of([&] { (void)decoder.decode(spans, pool); });
        check((error.fault == Fault::wire || error.fault == Fault::truncated) && error.offset == 13 &&
              error.feature == 0);
    }
    const auto deep = from_hex("0a0d0a0b0a01691206"
                               "1a040a05"
                               "0101");
    spans.payloads = {bytes_of(deep)};
    const example::Decoder decoder({spec("i", Kind::int64, -1)});
    const FormatError error = fault_of([&] { (void)decoder.decode(spans, pool); });
    check(error.fault == Fault::truncated && error.offset == 13 && error.expected == 5 && error.found == 2);
}

void no_room_is_made_for_what_cannot_be() {
    const auto payload = from_hex(packed);
    Spans spans;
    for (int i = 0; i < 4; ++i) spans.payloads.push_back(bytes_of(payload));
    for (const Kind kind : {Kind::int64, Kind::number, Kind::bytes, Kind::float32})
        for (const std::int64_t count : {std::int64_t{27}, std::int64_t{1} << 32, std::int64_t{1} << 61, INT64_MAX}) {
            const example::Decoder decoder({spec("i", kind, count)});
            const FormatError error = fault_of([&] { (void)decoder.decode(spans, pool); });
            check(error.record == 0 && (error.fault == Fault::wrong_count || error.fault == Fault::wrong_kind));
        }
}

void either_number_as_double() {
    const auto whole = from_hex(packed);
    const auto real = from_hex("0a110a0f0a0169120a"
                               "12080a06"
                               "0000c03f"
                               "0000"); // truncated float: refused
    Spans spans;
    spans.payloads = {bytes_of(whole)};
    const example::Decoder decoder({spec("i", Kind::number, -1)});
    const auto columns = decoder.decode(spans, pool);
    check(columns[0].number_count == 3 && load_le<double>(columns[0].numbers.data() + 16) == 300.0);
    spans.payloads = {bytes_of(real)};
    check(fault_of([&] { (void)decoder.decode(spans, pool); }).fault == Fault::wire);
    const auto large = from_hex("0a140a120a0169120d"
                                "1a0b0a09"
                                "808080808080808040");
    spans.payloads = {bytes_of(large)};
    const FormatError error = fault_of([&] { (void)decoder.decode(spans, pool); });
    check(error.fault == Fault::range && error.found == std::uint64_t{1} << 62);
}

void defaults_fill_in() {
    Spans spans;
    spans.payloads = {Bytes()};
    example::Spec wanted = spec("i", Kind::int64, 1);
    wanted.has_default = true;
    wanted.numbers = from_hex("0700000000000000");
    const example::Decoder decoder({wanted});
    const auto columns = decoder.decode(spans, pool);
    check(load_le<std::int64_t>(columns[0].numbers.data()) == 7);
}

} // namespace

int main() {
    all_forms_of_a_list();
    faults_name_record_and_feature();
    faults_count_from_the_payload();
    no_room_is_made_for_what_cannot_be();
    either_number_as_double();
    defaults_fill_in();
}

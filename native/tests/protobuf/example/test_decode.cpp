#include "core/protobuf/example/decode.hpp"

#include "base/cpus.hpp"
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

/// {"t": a packed run of `count` numbers that take one to three bytes}, and the numbers.
std::vector<std::byte> tokens(std::size_t count, std::vector<std::int64_t>& numbers) {
    std::vector<std::byte> run(count * 10), out;
    std::byte* end = run.data();
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t number = i * 7919 % (i % 3 == 0 ? 50'000 : 120);
        numbers.push_back(static_cast<std::int64_t>(number));
        end = proto::write_varint(end, number);
    }
    run.resize(static_cast<std::size_t>(end - run.data()));
    const auto wrap = [](std::uint32_t field, const std::vector<std::byte>& inner) {
        std::vector<std::byte> whole(11);
        whole.resize(static_cast<std::size_t>(proto::write_head(whole.data(), field, inner.size()) - whole.data()));
        whole.insert(whole.end(), inner.begin(), inner.end());
        return whole;
    };
    std::vector<std::byte> entry = from_hex("0a0174");
    const auto value = wrap(2, wrap(3, wrap(1, run)));
    entry.insert(entry.end(), value.begin(), value.end());
    return wrap(1, wrap(1, entry));
}

void columns_grow_alike_on_every_cpu() {
    for (const Cpu& cpu : runnable_cpus()) {
        std::vector<std::vector<std::byte>> payloads;
        std::vector<std::int64_t> expected, offsets = {0};
        for (const std::size_t count : {1U, 0U, 3U, 500U, 20U, 9000U, 2U, 64U}) {
            payloads.push_back(tokens(count, expected));
            offsets.push_back(static_cast<std::int64_t>(expected.size()));
        }
        Spans spans;
        for (const auto& payload : payloads) spans.payloads.push_back(bytes_of(payload));
        const example::Decoder decoder({spec("t", Kind::int64, -1)}, cpu);
        const auto columns = decoder.decode(spans, pool);
        check(columns[0].offsets == offsets && columns[0].number_count == expected.size());
        check(std::memcmp(columns[0].numbers.data(), expected.data(), expected.size() * 8) == 0);
    }
}

void keys_in_another_order() {
    // {"a": 1, "b": 2}, then {"b": 3, "a": 4}, then {"a": 5} and {"b": 6} alone, and an entry with its value first.
    const auto first = from_hex("0a1a 0a0b0a0161 1206 1a040a0201 00 0a0b0a0162 1206 1a040a0202 00");
    const auto turned = from_hex("0a1a 0a0b0a0162 1206 1a040a0203 00 0a0b0a0161 1206 1a040a0204 00");
    const auto value_first = from_hex("0a1a 0a0b 1206 1a040a0205 00 0a0161 0a0b0a0162 1206 1a040a0206 00");
    Spans spans;
    spans.payloads = {bytes_of(first), bytes_of(turned), bytes_of(first), bytes_of(value_first), bytes_of(turned)};
    const example::Decoder decoder({spec("a", Kind::int64, 2), spec("b", Kind::int64, -1)});
    const auto columns = decoder.decode(spans, pool);
    for (std::size_t i = 0; i < 5; ++i) {
        const std::int64_t a[] = {1, 4, 1, 5, 4}, b[] = {2, 3, 2, 6, 3};
        check(load_le<std::int64_t>(columns[0].numbers.data() + i * 16) == a[i]);
        check(load_le<std::int64_t>(columns[1].numbers.data() + i * 16) == b[i]);
    }
}

void steps_of_equal_and_other_forms() {
    // Four steps of one float: two in the usual form, one unpacked, one more in the usual form.
    const std::string usual = "0a08 1206 0a04 0000803f", single = "0a07 1205 0d 00000040";
    const auto payload = from_hex("122e 0a2c 0a0173 1227" + usual + usual + single + usual);
    Spans spans;
    spans.payloads = {bytes_of(payload), bytes_of(payload)};
    for (const std::int64_t count : {-1, 1}) {
        const example::Decoder decoder({spec("s", Kind::float32, count, true)});
        const auto columns = decoder.decode(spans, pool);
        check(columns[0].steps == std::vector<std::int64_t>{0, 4, 8} && columns[0].number_count == 8);
        const float expected[] = {1, 1, 2, 1, 1, 1, 2, 1};
        check(std::memcmp(columns[0].numbers.data(), expected, sizeof expected) == 0);
        if (count < 0) check(columns[0].offsets == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
    }
    const example::Decoder two({spec("s", Kind::float32, 2, true)});
    const FormatError error = fault_of([&] { (void)two.decode(spans, pool); });
    check(error.fault == Fault::wrong_count && error.expected == 2 && error.found == 1 && error.record == 0);
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
    columns_grow_alike_on_every_cpu();
    keys_in_another_order();
    steps_of_equal_and_other_forms();
    defaults_fill_in();
}

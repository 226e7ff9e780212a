#include "core/protobuf/example/decode.hpp"
#include "core/protobuf/example/encode.hpp"
#include "core/protobuf/example/scan.hpp"

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;
using example::Kind;

namespace {

const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);

example::Spec spec(std::string name, Kind kind, std::int64_t count, bool list = false) {
    example::Spec out;
    out.name = std::move(name);
    out.kind = kind;
    out.count = count;
    out.list = list;
    return out;
}

// {"i": [1, -1, 300]} with packed values.
constexpr std::string_view packed = "0a180a160a016912111a0f0a0d01ffffffffffffffffff01ac02";
// The same key and values in pieces: unpacked 1, packed -1, and in a second list 300.
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
    // The varint in the packed run, byte 13 of the payload, has no end.
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
                               "0000"); // cut float: refused
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

void encoding_is_canonical() {
    const std::int64_t numbers[] = {1, -1, 300};
    example::Source source;
    source.name = "i";
    source.kind = Kind::int64;
    source.count = 3;
    source.numbers = reinterpret_cast<const std::byte*>(numbers);
    source.number_count = 3;
    const auto encoded = example::encode({source}, 1, 12, 4, 1, pool);
    const auto expected = from_hex(packed);
    check(encoded.starts[0] == 12 && encoded.sizes[0] == static_cast<std::int64_t>(expected.size()) &&
          encoded.size == expected.size() + 16);
    check(std::memcmp(encoded.block.data() + 12, expected.data(), expected.size()) == 0);
    source.number_count = 4;
    check(fault_of([&] { (void)example::encode({source}, 1, 12, 4, 1, pool); }).fault == Fault::wrong_count);
}

void texts_and_images() {
    check(example::is_plain_text(bytes_of("caf\xc3\xa9 \t\n")) && example::is_plain_text({}));
    for (const std::string_view bad :
         {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\x01", "\xe6\x97", "\x7f"})
        check(!example::is_plain_text(bytes_of(bad)), bad);
    check(example::recognise_image(bytes_of("\xff\xd8\xff\xe0")) == example::Image::jpeg);
    check(example::recognise_image(bytes_of("\x89PNG\r\n\x1a\n")) == example::Image::png);
    check(example::recognise_image(bytes_of("BMX")) == example::Image::none);
    check(example::recognise_image(bytes_of(std::string_view("II*\0\x08\0\0\0", 8))) == example::Image::tiff);
    check(example::recognise_image(bytes_of(std::string_view("MM\0*\0\0\0\x08", 8))) == example::Image::tiff);
    check(example::recognise_image(bytes_of("MMXIV and more")) == example::Image::none);
}

void scanning_counts() {
    const auto payload = from_hex(packed);
    Spans spans;
    spans.payloads = {bytes_of(payload), Bytes()};
    example::Scanner scanner;
    scanner.add(spans);
    check(scanner.is_message() && scanner.records() == 2 && scanner.keys().size() == 1);
    const example::KeyFacts& facts = scanner.keys()[0];
    check(facts.name == "i" && facts.records == 1 && facts.most == 3 && facts.fewest == 3 && facts.kinds[3] == 1);
    spans.payloads = {bytes_of("\xff\xff\xff")};
    scanner.add(spans);
    check(!scanner.is_message());
}

void a_damaged_record_leaves_no_facts() {
    // {"a": [1]} and {"b": a packed run that ends within a number}.
    const auto payload = from_hex("0a18"
                                  "0a0a0a01611205"
                                  "1a030a0101"
                                  "0a0a0a01621205"
                                  "1a030a0181");
    Spans spans;
    spans.payloads = {bytes_of(payload)};
    example::Scanner scanner;
    scanner.add(spans);
    check(!scanner.is_message() && scanner.records() == 0 && scanner.keys().empty());
}

void payloads_lie_in_one_block() {
    const float numbers[] = {1.5F, -2.0F};
    example::Source list;
    list.name = "s";
    list.kind = Kind::float32;
    list.list = true;
    list.count = 1;
    list.numbers = reinterpret_cast<const std::byte*>(numbers);
    list.number_count = 2;
    list.steps = {0, 2, 2};
    const auto encoded = example::encode({list}, 2, 12, 4, 4, pool);
    Spans spans;
    for (int i = 0; i < 2; ++i) {
        check(encoded.starts[static_cast<std::size_t>(i)] % 4 == 0);
        spans.payloads.emplace_back(encoded.block.data() + encoded.starts[static_cast<std::size_t>(i)],
                                    static_cast<std::size_t>(encoded.sizes[static_cast<std::size_t>(i)]));
    }
    check(std::to_integer<int>(spans.payloads[0][0]) == 0x12); // No empty context before the feature lists.
    const example::Decoder decoder({spec("s", Kind::float32, 1, true)});
    const auto columns = decoder.decode(spans, pool);
    check(columns[0].steps == std::vector<std::int64_t>{0, 2, 2} && columns[0].number_count == 2);
    check(std::memcmp(columns[0].numbers.data(), numbers, sizeof numbers) == 0);
}

} // namespace

int main() {
    all_forms_of_a_list();
    faults_name_record_and_feature();
    faults_count_from_the_payload();
    no_room_is_made_for_what_cannot_be();
    either_number_as_double();
    defaults_fill_in();
    encoding_is_canonical();
    texts_and_images();
    scanning_counts();
    a_damaged_record_leaves_no_facts();
    payloads_lie_in_one_block();
}

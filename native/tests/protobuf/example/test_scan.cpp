#include "core/protobuf/example/scan.hpp"

#include "check.hpp"
#include "protobuf/example/samples.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

void test_texts_and_images() {
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

void test_a_feature_with_one_list() {
    const auto sole = [](std::string_view hex) {
        const auto feature = from_hex(hex);
        example::List list;
        const bool found = example::sole_list({bytes_of(feature), feature.data()}, list);
        return found ? static_cast<int>(list.kind) * 100 + static_cast<int>(list.piece.bytes.size()) : 0;
    };
    check(sole("0a00") == 100 && sole("1203 616263") == 203 && sole("1a8200 6162") == 302);
    for (const std::string_view other : {"", "0a", "2200", "1a01", "1a01 6162", "1a00 1a00", "9a0100", "1800"})
        check(sole(other) == 0, other);
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

} // namespace

int main() {
    test_texts_and_images();
    test_a_feature_with_one_list();
    scanning_counts();
    a_damaged_record_leaves_no_facts();
}

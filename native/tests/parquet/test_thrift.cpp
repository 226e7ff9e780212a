#include "core/parquet/thrift.hpp"

#include "check.hpp"

using namespace headrace;
using namespace headrace::parquet;
using namespace headrace::testing;

namespace {

using Buffer = std::vector<std::byte>;

// Skips one value, and returns how many bytes are left.
std::size_t left_after(std::string_view hex, ThriftType type, bool is_element = false) {
    const Buffer bytes = from_hex(hex);
    Cursor cursor(bytes);
    ThriftReader(cursor).skip(type, is_element);
    return cursor.remaining();
}

Fault skip_fault(std::string_view hex, ThriftType type) {
    return fault_of([&] { (void)left_after(hex, type); }).fault;
}

std::int64_t integer(std::string_view hex) {
    const Buffer bytes = from_hex(hex);
    Cursor cursor(bytes);
    return ThriftReader(cursor).integer();
}

void test_fields() {
    // 1: true, 3: false, 4: i32 7, 300 (long form): binary "ab", -2 (long form): byte, 13: double
    const Buffer bytes = from_hex("11 22 15 0e 08 d804 02 6162 03 03 ff f7 0000000000000840 00 99");
    Cursor cursor(bytes);
    ThriftReader reader(cursor);
    ThriftField field = reader.next({});
    check(field.number == 1 && field.type == ThriftType::yes);
    field = reader.next(field);
    check(field.number == 3 && field.type == ThriftType::no);
    field = reader.next(field);
    check(field.number == 4 && field.type == ThriftType::i32 && reader.integer() == 7);
    field = reader.next(field);
    check(field.number == 300 && field.type == ThriftType::binary);
    const Bytes text = reader.binary();
    check(text.size() == 2 && text[0] == std::byte{'a'} && text[1] == std::byte{'b'});
    field = reader.next(field);
    check(field.number == -2 && field.type == ThriftType::byte);
    reader.skip(field.type);
    field = reader.next(field);
    check(field.number == 13 && field.type == ThriftType::number);
    reader.skip(field.type);
    field = reader.next(field);
    check(field.type == ThriftType::stop && cursor.remaining() == 1);

    const auto field_fault = [](std::string_view hex, ThriftField before) {
        const Buffer wrong = from_hex(hex);
        Cursor at(wrong);
        return fault_of([&] { (void)ThriftReader(at).next(before); }).fault;
    };
    check(field_fault("", {}) == Fault::truncated && field_fault("05", {}) == Fault::truncated);
    check(field_fault("1d", {}) == Fault::wire && field_fault("10", {}) == Fault::wire);
    check(field_fault("05 8080808080", {}) == Fault::truncated);
    check(field_fault("05 ffffffff0f", {}) == Fault::wire);             // no number of 16 bits
    check(field_fault("f5", {32'767, ThriftType::i32}) == Fault::wire); // nor this
}

void test_integers() {
    check(integer("00") == 0 && integer("01") == -1 && integer("02") == 1 && integer("ac02") == 150);
    check(integer("feffffff0f") == 2'147'483'647 && integer("ffffffff0f") == -2'147'483'648);
    check(integer("feffffffffffffffff01") == INT64_MAX && integer("ffffffffffffffffff01") == INT64_MIN);
    check(fault_of([] { (void)integer("80"); }).fault == Fault::truncated);
    check(fault_of([] { (void)integer("ffffffffffffffffffff01"); }).fault == Fault::wire);
}

void test_each_field() {
    const Buffer bytes = from_hex("15 02 18 02 6162 15 04 00");
    Cursor cursor(bytes);
    ThriftReader reader(cursor);
    std::int64_t sum = 0;
    reader.each_field([&](const ThriftField& field) {
        if (field.type < ThriftType::i16 || field.type > ThriftType::i64) return false;
        sum += reader.integer() * field.number;
        return true;
    });
    check(sum == 1 * 1 + 3 * 2 && cursor.done());
}

void test_elements() {
    const auto elements = [](std::string_view hex) {
        const Buffer bytes = from_hex(hex);
        Cursor cursor(bytes);
        return ThriftReader(cursor).elements();
    };
    const auto few = elements("25 02 04");
    check(few.type == ThriftType::i32 && few.count == 2);
    check(elements("fc 02 0000").count == 2 && elements("0c").count == 0 && elements("00").count == 0);
    check(fault_of([&] { (void)elements("2c 00"); }).fault == Fault::truncated);
    check(fault_of([&] { (void)elements("fc ffffffff0f 00"); }).fault == Fault::truncated);
    check(fault_of([&] { (void)elements("1d 00"); }).fault == Fault::wire);
    check(fault_of([&] { (void)elements("10 00"); }).fault == Fault::wire);
}

void test_skip() {
    check(left_after("ff", ThriftType::yes) == 1 && left_after("ff", ThriftType::no) == 1);
    check(left_after("01 ff", ThriftType::yes, true) == 1 && left_after("02 ff", ThriftType::no, true) == 1);
    check(left_after("80 ff", ThriftType::byte) == 1);
    check(left_after("8001 ff", ThriftType::i16) == 1 && left_after("808001 ff", ThriftType::i64) == 1);
    check(left_after("0000000000000840 ff", ThriftType::number) == 1);
    check(left_after("03 616263 ff", ThriftType::binary) == 1);
    check(left_after("31 01 02 01 ff", ThriftType::list) == 1); // three truth values
    check(left_after("28 01 61 02 6162 ff", ThriftType::set) == 1);
    check(left_after("00 ff", ThriftType::map) == 1);
    check(left_after("02 85 01 61 02 01 62 04 ff", ThriftType::map) == 1); // text to i32
    check(left_after("01 1c 01 11 00 ff", ThriftType::map) == 1);          // truth value to struct
    check(left_after("11 1c 15 02 00 19 25 02 04 00 ff", ThriftType::structure) == 1);
    check(left_after("3c 00 00 11 00 ff", ThriftType::list) == 1); // three structs

    check(skip_fault("", ThriftType::stop) == Fault::wire);
    check(skip_fault("00", static_cast<ThriftType>(13)) == Fault::wire);
    check(skip_fault("04 616263", ThriftType::binary) == Fault::truncated);
    check(skip_fault("ffffffffffffffffff01 61", ThriftType::binary) == Fault::truncated);
    check(skip_fault("ffffffffffffffffff01 55 00", ThriftType::map) == Fault::truncated);
    check(skip_fault("01 d5 00 00", ThriftType::map) == Fault::wire);
    check(skip_fault("01 05 00 00", ThriftType::map) == Fault::wire);
    check(skip_fault("15", ThriftType::structure) == Fault::truncated);

    const auto nested = [](std::size_t depth) { // lists of one list each, the last one empty
        std::string hex;
        for (std::size_t i = 0; i < depth; ++i) hex += "19";
        return hex + "05";
    };
    check(left_after(nested(32), ThriftType::list) == 0);
    check(skip_fault(nested(33), ThriftType::list) == Fault::wire);
    check(skip_fault(nested(100'000), ThriftType::list) == Fault::wire);
    std::string structs;
    for (int i = 0; i < 1000; ++i) structs += "1c";
    check(skip_fault(structs, ThriftType::structure) == Fault::wire);
}

void test_damage() {
    // A footer of pyarrow 26: t = pa.table({"f": [0.5, 1.5, None]})
    const Buffer footer = from_hex(
        "1504192c35001806736368656d61150200150a2502180166001606191c191c26001c150a19250600191801661500160616b801"
        "16b80126083c1808000000000000f83f1808000000000000e03f16022808000000000000f83f1808000000000000e03f111100"
        "191c150015001502003c29061926020400000016b8011606260816b801002820706172717565742d6370702d6172726f772076"
        "657273696f6e2032362e302e31191c1c000000");
    const auto skip = [](const Buffer& bytes) {
        Cursor cursor(bytes);
        ThriftReader(cursor).skip(ThriftType::structure);
        return cursor.remaining();
    };
    check(skip(footer) == 0);
    for (std::size_t size = 0; size < footer.size(); ++size) {
        const Buffer begin(footer.begin(), footer.begin() + static_cast<std::ptrdiff_t>(size));
        check(fault_of([&] { (void)skip(begin); }).fault == Fault::truncated);
    }
    for (std::size_t i = 0; i < footer.size(); ++i)
        for (unsigned value = 0; value < 256; ++value) {
            Buffer changed = footer;
            changed[i] = static_cast<std::byte>(value);
            try {
                (void)skip(changed);
            } catch (const FormatError& error) {
                check(error.fault == Fault::truncated || error.fault == Fault::wire);
            }
        }
}

} // namespace

int main() {
    test_fields();
    test_integers();
    test_each_field();
    test_elements();
    test_skip();
    test_damage();
}

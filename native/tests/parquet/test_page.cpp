#include "core/parquet/page.hpp"

#include <algorithm>

#include "check.hpp"
#include "core/checksum/crc32.hpp"
#include "core/parquet/snappy.hpp"

using namespace headrace;
using namespace headrace::parquet;
using namespace headrace::testing;

namespace {

using Buffer = std::vector<std::byte>;

PageHeader read(std::string_view hex) {
    const Buffer bytes = from_hex(hex);
    Cursor cursor(bytes);
    const PageHeader header = read_page_header(cursor);
    check(cursor.done());
    return header;
}

Fault fault(std::string_view hex) {
    return fault_of([&] { (void)read(hex); }).fault;
}

// Columns of pyarrow 26, with write_page_checksum, of a = [1, 2, None, 2] and b = [["x"], [], None, ["y", "x"]]. First
// data pages of version 1.0 behind dictionaries, Snappy, of a and b.
constexpr std::string_view
    dictionary_a = "150415101514159bb8adbf043c15041500120000081c0100000002000000"
                   "15001512151615de94e6a4041c15081510150615061c180402000000180401000000160228040200000018040100000011"
                   "11000000092002000000030b010306",
    dictionary_b = "15041514151815bda491c5083c150415001200000a2401000000780100000079"
                   "1500152015241596a6c3b50b1c150a1510150615061c36042801791801781111000000103c02000000031003000000"
                   "03c703010302";
// Version 2.0, without dictionaries.
constexpr std::string_view
    v2_a = "1506151c151c15cc80d399074c150815021508150015041500121c180402000000180401000000160228040200000018040100"
           "00001111000000030b010000000200000002000000",
    v2_b = "15061528152815c59ae1d9024c150a15041508150015061504121c36042801791801781111000000031003c703010000007801"
           "000000790100000078";

// The headers of a column, after checking what follows each.
std::vector<PageHeader> pages(std::string_view hex, bool has_snappy) {
    const Buffer bytes = from_hex(hex);
    Cursor cursor(bytes);
    std::vector<PageHeader> found;
    while (!cursor.done()) {
        found.push_back(read_page_header(cursor));
        const Bytes stored = cursor.take(found.back().stored_bytes);
        check(found.back().crc == crc32(stored));
        Buffer decoded(found.back().decoded_bytes);
        check(!has_snappy || decompress_snappy(stored, decoded));
    }
    return found;
}

void test_v1() {
    const auto a = pages(dictionary_a, true);
    check(a.size() == 2 && a[0].type == PageType::dictionary && a[1].type == PageType::data);
    check(a[0].values == 2 && a[0].encoding == Encoding::plain && a[0].stored_bytes == 10 && a[0].decoded_bytes == 8);
    check(a[1].values == 4 && a[1].encoding == Encoding::rle_dictionary && a[1].definition == Encoding::rle &&
          a[1].repetition == Encoding::rle && a[1].stored_bytes == 11 && a[1].decoded_bytes == 9);
    const auto b = pages(dictionary_b, true);
    check(b.size() == 2 && b[0].type == PageType::dictionary && b[0].values == 2 && b[0].decoded_bytes == 10);
    check(b[1].type == PageType::data && b[1].values == 5);
}

void test_v2() {
    const auto a = pages(v2_a, false);
    check(a.size() == 1 && a[0].type == PageType::data_v2 && a[0].values == 4 && a[0].nulls == 1 && a[0].rows == 4);
    check(a[0].encoding == Encoding::plain && a[0].definition_bytes == 2 && a[0].repetition_bytes == 0);
    check(!a[0].is_compressed && a[0].stored_bytes == 14);
    const auto b = pages(v2_b, false);
    check(b.size() == 1 && b[0].values == 5 && b[0].nulls == 2 && b[0].rows == 4);
    check(b[0].definition_bytes == 3 && b[0].repetition_bytes == 2);
}

void test_fields() {
    // As parquet-mr writes them, without a checksum, with encodings that are no longer used.
    const PageHeader plain = read("1500 15c801 15a001 2c 15 14 15 04 15 06 15 08 00 00");
    check(plain.type == PageType::data && plain.decoded_bytes == 100 && plain.stored_bytes == 80 && !plain.crc);
    check(plain.values == 10 && plain.encoding == Encoding::plain_dictionary && plain.definition == Encoding::rle &&
          plain.repetition == Encoding::other && plain.is_compressed);
    // A header of version 2 that says nothing of compression: it is compressed.
    check(read("1506 1528 1528 5c 1502 1500 1502 1500 1500 1500 00 00").is_compressed);
    check(read("1506 1528 1528 5c 1502 1500 1502 1500 1500 1500 11 00 00").is_compressed);
    check(!read("1506 1528 1528 5c 1502 1500 1502 1500 1500 1500 12 00 00").is_compressed);
    // Pages of an index, which may have an empty struct, and fields of later versions, of all types.
    check(read("1502 1528 1528 3c 00 00").type == PageType::index && read("1502 1528 1528 00").stored_bytes == 20);
    const PageHeader later =
        read("1504 1528 1528 4c 1504 1500 11 57 0000000000000840 2b 01 8c 02 6162 11 00 1931 01 02 01 00 "
             "05 d00f 02 13 05 1c 11 00 00");
    check(later.type == PageType::dictionary && later.values == 2 && later.encoding == Encoding::plain);
    // Fields in another order, each with its number.
    check(read("05 06 50 05 04 50 05 02 04 0c 0e 15 02 15 00 00 00").values == 1);
}

void test_faults() {
    check(fault("00") == Fault::structure);                                                    // nothing
    check(fault("1508 1528 1528 00") == Fault::structure);                                     // an unknown type
    check(fault("1501 1528 1528 00") == Fault::structure);                                     // a negative one
    check(fault("1500 1528 1528 00") == Fault::structure);                                     // without its struct
    check(fault("1500 1528 1528 2c 1514 1500 1506 00 00") == Fault::structure);                // without an encoding
    check(fault("1504 1528 1528 4c 1500 00") == Fault::truncated);                             // without the last end
    check(fault("1504 1527 1528 4c 1504 1500 00 00") == Fault::structure);                     // negative sizes
    check(fault("1504 1528 1527 4c 1504 1500 00 00") == Fault::structure);                     //
    check(fault("1504 1528 1528 4c 1503 1500 00 00") == Fault::structure);                     // and counts
    check(fault("1504 15feffffff1f 1528 4c 1504 1500 00 00") == Fault::structure);             // a size above 2^31
    check(fault("1504 1828 1528 4c 1504 1500 00 00") == Fault::truncated);                     // text for a number
    check(fault("1504 180161 1528 4c 1504 1500 00 00") == Fault::structure);                   //
    check(fault("1506 1528 1528 5c 1502 1504 1502 1500 1500 1500 00 00") == Fault::structure); // too many nulls
    check(fault("1506 1528 1528 5c 1502 1500 1504 1500 1500 1500 00 00") == Fault::structure); // too many rows
    check(fault("1506 1528 1528 5c 1502 1500 1502 1500 1500 152a 00 00") == Fault::structure); // too large levels
    check(fault("1506 1528 1528 5c 1502 1500 1502 1500 1516 1516 00 00") == Fault::structure); // both together
    check(fault("1506 1526 1528 5c 1502 1500 1502 1500 1500 1528 00 00") == Fault::structure); // of what is decoded
    check(fault("1506 1528 1528 5c 1502 1500 1502 1500 1500 00 00") == Fault::structure);
    // Numbers of another type than theirs are unknown fields: of 16 or 64 bits, or truth values.
    check(read("1504 1528 1528 4c 1504 1500 00 00").values == 2);
    check(fault("1404 1528 1528 4c 1504 1500 00 00") == Fault::structure);
    check(fault("1504 1628 1528 4c 1504 1500 00 00") == Fault::structure);
    check(fault("1504 1528 1528 4c 1604 1500 00 00") == Fault::structure);
    check(fault("1504 1528 1528 4c 11 1500 00 00") == Fault::structure);
    check(fault("1504 1528 1528 4c 1504 12 00 00") == Fault::structure);
    check(!read("1504 1528 1528 1602 3c 1504 1500 00 00").crc);
    check(read("1506 1528 1528 5c 1502 1500 1502 1500 1500 1500 1500 00 00").is_compressed);
    check(fault("1d") == Fault::wire && fault("") == Fault::truncated);
    // Offsets count from the beginning of what the cursor belongs to.
    const Buffer bytes = from_hex("1508 1528 1528 00");
    Cursor cursor(bytes, 1000);
    check(fault_of([&] { (void)read_page_header(cursor); }).offset == 1000);
}

void test_damage(std::string_view hex) {
    const Buffer bytes = from_hex(hex);
    Cursor whole(bytes);
    (void)read_page_header(whole);
    const Buffer header(bytes.data(), whole.position());
    for (std::size_t size = 0; size < header.size(); ++size) {
        const Buffer begin(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(size));
        Cursor cursor(begin);
        check(fault_of([&] { (void)read_page_header(cursor); }).fault == Fault::truncated);
    }
    for (std::size_t i = 0; i < header.size(); ++i)
        for (unsigned value = 0; value < 256; ++value) {
            Buffer changed = header;
            changed[i] = static_cast<std::byte>(value);
            Cursor cursor(changed);
            try {
                const PageHeader found = read_page_header(cursor);
                check(std::max(found.stored_bytes, found.decoded_bytes) <= INT32_MAX);
                check(found.repetition_bytes + found.definition_bytes <= found.stored_bytes);
            } catch (const FormatError& error) {
                check(error.fault == Fault::truncated || error.fault == Fault::wire || error.fault == Fault::structure);
            }
        }
}

} // namespace

int main() {
    test_v1();
    test_v2();
    test_fields();
    test_faults();
    for (const std::string_view sample : {dictionary_a, dictionary_b, v2_a, v2_b}) test_damage(sample);
}

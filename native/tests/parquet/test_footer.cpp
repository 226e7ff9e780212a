#include "core/parquet/footer.hpp"

#include <algorithm>

#include "check.hpp"
#include "parquet/footers.hpp"

using namespace headrace;
using namespace headrace::parquet;
using namespace headrace::testing;

namespace {

using Buffer = std::vector<std::byte>;

Chunks read(std::string_view hex) { return read_chunks(from_hex(hex)); }

Fault fault(std::string_view hex) {
    return fault_of([&] { (void)read(hex); }).fault;
}

bool equal(const ColumnChunk& a, const ColumnChunk& b) {
    return a.begin == b.begin && a.size == b.size && a.levels == b.levels && a.rows == b.rows && a.codec == b.codec &&
           a.type == b.type;
}

void test_reference() {
    const Chunks first = read(dictionaries);
    check(first.columns == 2 && first.all.size() == 4);
    check(equal(first.all[0], {4, 94, 4, 4, 1, 1}) && equal(first.all[1], {98, 85, 5, 4, 1, 6}));
    check(equal(first.all[2], {183, 93, 2, 2, 1, 1}) && equal(first.all[3], {276, 84, 2, 2, 1, 6}));
    const Chunks second = read(plain);
    check(second.columns == 2 && second.all.size() == 4);
    check(equal(second.all[0], {4, 72, 4, 4, 1, 1}) && equal(second.all[1], {76, 60, 5, 4, 1, 6}));
    check(equal(second.all[2], {136, 68, 2, 2, 1, 1}) && equal(second.all[3], {204, 54, 2, 2, 1, 6}));
    const Chunks third = read(no_rows);
    check(third.columns == 1 && third.all.size() == 1 && equal(third.all[0], {0, 21, 0, 0, 1, 5}));
    check(read(std::string(plain) + "ff1d").all.size() == 4); // other bytes may follow
    // What the statistics count.
    check(first.all[0].repetitions == 0 && first.all[0].definitions == 2);
    check(first.all[1].repetitions == 2 && first.all[1].definitions == 4);
}

// Metadata of a column: type, path, codec, levels, size, offset of data, and more fields.
std::string column(const std::string& metadata, const std::string& before = "2600") {
    return before + "1c" + metadata + "00 00 "; // file_offset, or file_path
}

std::string column_a(const std::string& more = "") { return column("1502 29180161 1500 1608 2690 01 2608" + more); }

std::string group(const std::vector<std::string>& columns, const std::string& rows = "2608") {
    std::string hex = "19";
    constexpr std::string_view digits = "0123456789abcdef";
    hex += digits[columns.size()];
    hex += "c";
    for (const std::string& one : columns) hex += one;
    return hex + rows + "00 ";
}

std::string file(const std::vector<std::string>& groups, const std::string& more = "") {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string hex = "1502 190c 1600 19"; // version, schema, num_rows
    hex += digits[groups.size()];
    hex += "c";
    for (const std::string& one : groups) hex += one;
    return hex + more + "00";
}

void test_forms() {
    const ColumnChunk wanted{4, 72, 4, 4, 0, 1};
    const Chunks one = read(file({group({column_a()})}));
    check(one.columns == 1 && one.all.size() == 1 && equal(one.all[0], wanted));
    check(read(file({})).columns == 0 && read(file({})).all.empty());
    check(read(file({group({}), group({})})).all.empty());
    check(equal(read(file({group({column_a(), column_a()}), group({column_a(), column_a()})})).all[3], wanted));
    // dictionary_page_offset: 0, 2, 4 (that of the data), -1
    check(read(file({group({column_a("2600")})})).all[0].begin == 4);
    check(read(file({group({column_a("2604")})})).all[0].begin == 2);
    check(read(file({group({column_a("2608")})})).all[0].begin == 4);
    check(read(file({group({column_a("2601")})})).all[0].begin == 4);
    check(read(file({group({column_a("2504")})})).all[0].begin == 4); // of another type than it has
    // An empty file_path, and unknown fields: a struct, a map, a double, truth values.
    check(read(file({group({column("1502 29180161 1500 1608 2690 01 2608", "1800 1600")})})).all.size() == 1);
    check(read(file({group({column_a("9c 1100 1b 01 88 0161 0162 17 0000000000000840 11 12 1921 0102")},
                           "2608 05d00f02")},
                    "05d00f02"))
              .all.size() == 1);
}

void test_faults() {
    check(fault("00") == Fault::structure && fault("1502 00") == Fault::structure && fault("") == Fault::truncated);
    check(fault("1502 190c 1600 1918 0161 00") == Fault::structure); // row groups that are text
    check(fault(file({group({column_a()}), group({})})) == Fault::structure);
    check(fault(file({group({}), group({column_a()})})) == Fault::structure);
    check(fault(file({group({column_a()}), group({column_a(), column_a()})})) == Fault::structure);
    const std::string other_name = column("1502 29180162 1500 1608 2690 01 2608");
    const std::string other_type = column("1504 29180161 1500 1608 2690 01 2608");
    check(fault(file({group({column_a()}), group({other_name})})) == Fault::structure);
    check(fault(file({group({column_a()}), group({other_type})})) == Fault::structure);
    check(fault(file({group({column_a()}, "")})) == Fault::structure);             // no number of rows
    check(fault(file({group({column_a()}, "2607")})) == Fault::structure);         // a negative one
    check(fault(file({group({column_a()}, "2508")})) == Fault::structure);         // one of another type
    check(fault(file({"2608 00"})) == Fault::structure);                           // no columns
    check(fault(file({group({column_a()}, "2608 0902 0c")})) == Fault::structure); // twice
    for (const std::string_view metadata : {
             "1500 39180161 1500",                        // nearly everything is missing
             "39180161 1500 1608 2690 01 2608",           // no type
             "1502 3500 1608 2690 01 2608",               // no path
             "1502 29180161 2608 2690 01 2608",           // no codec
             "1502 29180161 1500 3690 01 2608",           // no count
             "1502 29180161 1500 1608 4608",              // no size
             "1502 29180161 1500 1608 2690 01",           // no offset
             "1502 29180161 1500 1608 2690 01 4604",      // only a dictionary
             "1510 29180161 1500 1608 2690 01 2608",      // an unknown type
             "1501 29180161 1500 1608 2690 01 2608",      // a negative one
             "1502 29180161 1510 1608 2690 01 2608",      // an unknown codec
             "1502 29180161 1501 1608 2690 01 2608",      //
             "1602 29180161 1500 1608 2690 01 2608",      // numbers of another type than theirs
             "1502 29180161 1600 1608 2690 01 2608",      //
             "1502 29180161 1500 1508 2690 01 2608",      //
             "1502 29180161 1500 1608 2590 01 2608",      //
             "1502 29180161 1500 1608 2690 01 2508",      //
             "1502 29180161 1500 1607 2690 01 2608",      // negative numbers
             "1502 29180161 1500 1608 2601 2608",         //
             "1502 29180161 1500 1608 2690 01 2607",      //
             "1502 29180161 1500 1608 2690 01 2607 2602", //
         })
        check(fault(file({group({column(std::string(metadata))})})) == Fault::structure, metadata);
    check(fault(file({group({"2600 00"})})) == Fault::structure); // no metadata
    const std::string whole = "1502 29180161 1500 1608 2690 01 2608";
    check(fault(file({group({column(whole, "180162 1600")})})) == Fault::structure);        // in another file
    check(fault(file({group({"2600 1c" + whole + "00 5c 00 00"})})) == Fault::structure);   // encrypted
    check(fault(file({group({"2600 1c" + whole + "00 68 0161 00"})})) == Fault::structure); //
    check(fault(file({group({"2600 1c" + whole + "00 0c06" + whole + "00 00"})})) == Fault::structure); // twice
    check(fault(file({}, "4c 00")) == Fault::structure && fault(file({}, "58 0161")) == Fault::structure);
    check(fault(file({}, "0908 0c")) == Fault::structure); // row groups twice
    check(fault("19ec") == Fault::truncated && fault("1d") == Fault::wire);
    check(fault("49fcffffffff0f") == Fault::truncated); // as many row groups as will never be there
}

void test_damage(std::string_view hex) {
    const Buffer bytes = from_hex(hex);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        const Buffer begin(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        check(fault_of([&] { (void)read_chunks(begin); }).fault == Fault::truncated);
    }
    for (std::size_t i = 0; i < bytes.size(); ++i)
        for (unsigned value = 0; value < 256; ++value) {
            Buffer changed = bytes;
            changed[i] = static_cast<std::byte>(value);
            try {
                const Chunks chunks = read_chunks(changed);
                for (const ColumnChunk& chunk : chunks.all)
                    check(std::min({chunk.begin, chunk.size, chunk.levels, chunk.rows}) >= 0);
            } catch (const FormatError& error) {
                check(error.fault == Fault::truncated || error.fault == Fault::wire || error.fault == Fault::structure);
            }
        }
}

} // namespace

int main() {
    test_reference();
    test_forms();
    test_faults();
    for (const std::string_view sample : {dictionaries, plain, no_rows}) test_damage(sample);
}

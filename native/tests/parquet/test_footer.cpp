#include "core/parquet/footer.hpp"

#include <algorithm>

#include "check.hpp"

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

// Footers of pyarrow 26, with two columns (a = [1, 2, None, 2, 1, 2] and b = [["x"], [], None, ["y", "x"], ["x"],
// ["y"]]) in row groups of four, Snappy, with dictionaries.
constexpr std::string_view dictionaries =
    "1504195c35001806736368656d6115040015022502180161003502180162150215064c3c000000350418046c697374150200"
    "150c25021807656c656d656e7425004c1c000000160c192c192c26001c15021935000610191801611502160816b40116bc01"
    "264426081c1804020000001804010000001602280402000000180401000000111100192c1504150015020015001510150200"
    "3c29061926020600000026001c150c193500061019380162046c69737407656c656d656e741502160a16a20116aa01268402"
    "26c4011c3604280179180178111100192c15041500150200150015101502003c16061926080219460202000600000016d602"
    "1608260816e60200192c26001c15021935000610191801611502160416b20116ba0126aa0326ee021c180402000000180401"
    "0000001600280402000000180401000000111100192c15041500150200150015101502003c29061926000400000026001c15"
    "0c193500061019380162046c69737407656c656d656e741502160416a00116a80126e80426a8041c36002801791801781111"
    "00192c15041500150200150015101502003c16041926040019460000000400000016d202160426ee0216e202002820706172"
    "717565742d6370702d6172726f772076657273696f6e2032362e302e31192c1c00001c000000";
// Without dictionaries.
constexpr std::string_view plain =
    "1504195c35001806736368656d6115040015022502180161003502180162150215064c3c000000350418046c697374150200"
    "150c25021807656c656d656e7425004c1c000000160c192c192c26001c150219250600191801611502160816900116900126"
    "083c1804020000001804010000001602280402000000180401000000111100191c150015001502003c290619260206000000"
    "26001c150c1925060019380162046c69737407656c656d656e741502160a167816782698013c360428017918017811110019"
    "1c150015001502003c1606192608021946020200060000001688021608260816880200192c26001c15021925060019180161"
    "150216041688011688012690023c1804020000001804010000001600280402000000180401000000111100191c1500150015"
    "02003c29061926000400000026001c150c1925060019380162046c69737407656c656d656e7415021604166c166c2698033c"
    "3600280179180178111100191c150015001502003c16041926040019460000000400000016f401160426900216f401002820"
    "706172717565742d6370702d6172726f772076657273696f6e2032362e302e31192c1c00001c000000";
// A table without rows, whose row group has an offset of 0 for its data.
constexpr std::string_view no_rows =
    "1504192c35001806736368656d61150200150a2502180166001600191c191c26001c150a1925000619180166150216001628"
    "162a26002608291c150415001502000000162816002608162a002820706172717565742d6370702d6172726f772076657273"
    "696f6e2032362e302e31191c1c000000";

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

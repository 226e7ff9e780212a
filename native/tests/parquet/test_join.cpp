#include "core/parquet/join.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "check.hpp"
#include "core/parquet/footer.hpp"
#include "parquet/footers.hpp"

using namespace headrace;
using namespace headrace::parquet;
using namespace headrace::testing;

namespace {

using Buffer = std::vector<std::byte>;

Buffer join(const std::vector<std::pair<Buffer, std::int64_t>>& parts) {
    std::vector<JoinedPart> given;
    for (const auto& [footer, move] : parts) given.push_back({footer, move});
    return join_footers(given);
}

void test_one_part_is_unchanged() {
    for (const std::string_view sample : {dictionaries, plain, no_rows})
        check(join({{from_hex(sample), 0}}) == from_hex(sample));
    check(join({{from_hex(std::string(plain) + "ff1d"), 0}}) == from_hex(plain)); // other bytes may follow
}

void test_row_groups_follow_one_another() {
    const Buffer first = from_hex(dictionaries), second = from_hex(plain);
    const Chunks before = read_chunks(first), after = read_chunks(second);
    std::vector<std::pair<Buffer, std::int64_t>> parts;
    for (std::int64_t k = 0; k < 10; ++k) parts.emplace_back(k % 2 == 0 ? first : second, 1000 * k);
    const Chunks found = read_chunks(join(parts)); // 20 row groups: their count no longer stands beside the type
    check(found.columns == 2 && found.all.size() == 40);
    for (std::size_t i = 0; i < found.all.size(); ++i) {
        const ColumnChunk& was = (i / 4 % 2 == 0 ? before : after).all[i % 4];
        check(found.all[i].begin == was.begin + static_cast<std::int64_t>(1000 * (i / 4)));
        check(found.all[i].size == was.size && found.all[i].rows == was.rows && found.all[i].levels == was.levels);
    }
}

// A row group of one column, all of whose offsets are the same number.
std::string group(const std::string& at, const std::string& ordinal) {
    const std::string metadata =
        "96" + at + "16" + at + "16" + at + "36" + at + "00"; // of data, index, dictionary, filter
    return "191c 26" + at + "1c" + metadata + "16" + at + "26" + at + "00 46" + at + "24" + ordinal + "00";
}

// A schema, and row groups.
std::string footer(const std::string& rows, const std::string& groups, const std::string& schema = "1c00") {
    return "29" + schema + "16" + rows + "19" + groups + "00";
}

void test_every_offset_moves() {
    const Buffer part = from_hex(footer("0a", "1c" + group("14", "00")));                         // 5 rows, at 10
    const Buffer joined = from_hex(footer("14", "2c" + group("14", "00") + group("c001", "02"))); // at 96
    check(join({{part, 0}, {part, 86}}) == joined);
    const Buffer without = from_hex(footer("0a", "1c" + group("00", "00"))); // 0: there is none
    check(join({{without, 5}}) == without);
}

void test_ordinals_end_where_they_no_longer_fit() {
    const Buffer part = from_hex(footer("02", "1c" + group("14", "00")));
    const std::vector<std::pair<Buffer, std::int64_t>> parts(32770, {part, 0});
    const std::string last = group("14", "feff03") + "00";
    const Buffer joined = join(parts), end = from_hex(last + "");
    check(std::ranges::equal(std::span(joined).last(end.size()), end));
}

void test_faults() {
    using Parts = std::vector<std::pair<std::string, std::int64_t>>;
    const auto fault = [](const Parts& parts) {
        std::vector<std::pair<Buffer, std::int64_t>> given;
        for (const auto& [hex, move] : parts) given.emplace_back(from_hex(hex), move);
        const FormatError error = fault_of([&] { (void)join(given); });
        return std::pair{error.fault, error.record};
    };
    const std::string sound = footer("0a", "1c" + group("14", "00"));
    const std::pair structure{Fault::structure, std::int64_t{1}};
    check(fault({{sound, 0}, {footer("0a", "1c" + group("14", "00"), "1c150000"), 0}}) == structure); // another schema
    check(fault({{sound, 0}, {footer("09", "0c"), 0}}) == structure);                                 // -5 rows
    check(fault({{sound, 0}, {footer("feffffffffffffffff01", "0c"), 0}}) == structure);               // too many
    check(fault({{sound, 0}, {footer("0a", "1c" + group("13", "00")), 0}}) == structure);             // at -10
    check(fault({{sound, 0}, {footer("0a", "1c" + group("feffffffffffffffff01", "00")), 1}}) == structure);
    check(fault({{sound, 0}, {footer("0a", "15 02"), 0}}) == structure);               // row groups of numbers
    check(fault({{sound, 0}, {footer("0a", "1c 1915 02 00"), 0}}) == structure);       // columns of numbers
    check(fault({{sound, 0}, {footer("0a", "1c 191c 8c 00 00 00"), 0}}) == structure); // an encrypted column
    check(fault({{sound, 0}, {"291c00 160a 190c 4c00 00", 0}}) == structure);          // an encrypted file
    check(fault({{sound, 0}, {"291c00 160a 190c 0908 0c 00", 0}}) == structure);       // row groups twice
    check(fault({{sound, 0}, {"291c00 290c 0606 0a 00", 0}}) == structure);            // in another order
    for (const char* const missing : {"160a 190c 00", "291c00 290c 00", "291c00 160a 00"})
        check(fault({{sound, 0}, {missing, 0}}) == structure);
    check(fault({{sound, 0}, {"291c00 160a", 0}}) == std::pair{Fault::truncated, std::int64_t{1}});
    check(fault({{"1d", 0}, {sound, 0}}) == std::pair{Fault::wire, std::int64_t{0}});
    bool is_refused = false;
    try {
        (void)join({});
    } catch (const std::invalid_argument&) {
        is_refused = true;
    }
    check(is_refused);
}

void test_damage() {
    const Buffer bytes = from_hex(dictionaries);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        const Buffer begin(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        check(fault_of([&] { (void)join({{begin, 1}}); }).fault == Fault::truncated);
    }
    for (std::size_t i = 0; i < bytes.size(); ++i)
        for (unsigned value = i % 5; value < 256; value += 5) {
            Buffer changed = bytes;
            changed[i] = static_cast<std::byte>(value);
            try {
                check(!join({{changed, 1 << 20}, {changed, 1 << 30}}).empty());
            } catch (const FormatError& error) {
                check(error.fault == Fault::truncated || error.fault == Fault::wire || error.fault == Fault::structure);
            }
        }
}

} // namespace

int main() {
    test_one_part_is_unchanged();
    test_row_groups_follow_one_another();
    test_every_offset_moves();
    test_ordinals_end_where_they_no_longer_fit();
    test_faults();
    test_damage();
}

#include "core/framing/recordio.hpp"

#include <algorithm>
#include <cstring>

#include "check.hpp"

using namespace headrace;
using headrace::testing::bytes_of;
using headrace::testing::check;
using headrace::testing::fault_of;

namespace {

std::string word(std::uint32_t value) {
    std::string out(4, '\0');
    std::memcpy(out.data(), &value, 4);
    return out;
}

std::string part(std::string_view payload, std::uint32_t flag = 0) {
    std::string out =
        word(recordio::magic) + word(flag << 29 | static_cast<std::uint32_t>(payload.size())) + std::string(payload);
    out.append(recordio::padded(payload.size()) - payload.size(), '\0');
    return out;
}

std::string joined(std::string_view file, std::uint64_t offset, recordio::Join join) {
    const recordio::Record record = recordio::record_at(bytes_of(file), offset);
    std::string out(record.joined_size(join), '?');
    recordio::join_parts(bytes_of(file), record, join, std::as_writable_bytes(std::span(out)));
    return out;
}

void test_whole_records() {
    const std::string file = part("plain") + part("") + part("four");
    const recordio::Scan found = recordio::scan(bytes_of(file), 0, file.size(), 100);
    check(!found.faulty && found.next == file.size());
    check(found.starts == std::vector<std::int64_t>{0, 16, 24});
    check(joined(file, 0, recordio::Join::magic) == "plain");
    check(recordio::scan(bytes_of(file), 0, 17, 100).starts.size() == 2);
    check(recordio::scan(bytes_of(file), 0, file.size(), 1).next == 16);
    check(recordio::scan(bytes_of(std::string_view{}), 0, 100, 100).starts.empty());
}

void test_multipart_records() {
    const std::string file = part("abcd", 1) + part("e", 2) + part("tail", 3) + part("next");
    check(joined(file, 0, recordio::Join::magic) ==
          "abcd" + word(recordio::magic) + "e" + word(recordio::magic) + "tail");
    check(joined(file, 0, recordio::Join::plain) == "abcdetail");
    check(recordio::scan(bytes_of(file), 0, file.size(), 100).starts == std::vector<std::int64_t>{0, 36});
    const std::string only_magic = part("", 1) + part("", 2) + part("", 3);
    check(joined(only_magic, 0, recordio::Join::magic) == word(recordio::magic) + word(recordio::magic));
}

void faults_report_position_and_cause() {
    const std::string good = part("good");
    const auto fault = [&](const std::string& bad) {
        const std::string file = good + bad;
        return recordio::scan(bytes_of(file), 0, file.size(), 100);
    };
    for (std::size_t size = 1; size < part("12345").size(); ++size) {
        const recordio::Scan cut = fault(part("12345").substr(0, size));
        check(cut.faulty && cut.fault.fault == Fault::truncated && cut.fault.offset == good.size() &&
              cut.fault.record == 1);
        check(cut.starts.size() == 1);
    }
    const recordio::Scan wrong = fault("!!!!" + part("x").substr(4));
    check(wrong.fault.fault == Fault::magic && wrong.fault.expected == recordio::magic &&
          wrong.fault.found == 0x21212121);
    for (const std::uint32_t flag : {2U, 3U, 4U, 7U}) check(fault(part("x", flag)).fault.fault == Fault::part);
    check(fault(part("x", 1) + part("y", 0)).fault.fault == Fault::part);
    check(fault(part("x", 1) + part("y", 1)).fault.offset == good.size());
    check(fault(part("x", 1)).fault.fault == Fault::truncated);
    check(fault_of([&] { (void)recordio::record_at(bytes_of(good), UINT64_MAX - 3); }).fault == Fault::truncated);
}

void a_bad_word_after_the_last_record_is_found_at_once() {
    const std::string file = part("good") + "????????";
    const recordio::Scan found = recordio::scan(bytes_of(file), 0, 4, 100);
    check(found.faulty && found.starts.size() == 1 && found.fault.offset == 12);
}

void finds_the_next_record_after_damage() {
    const std::string file =
        part("one") + "xx" + word(recordio::magic) + "yy" + word(recordio::magic) + word(7U << 29) + part("two");
    const std::int64_t second = static_cast<std::int64_t>(file.size() - part("two").size());
    check(recordio::find(bytes_of(file), 0) == 0);
    check(recordio::find(bytes_of(file), 1) == second);
    check(recordio::find(bytes_of(file), static_cast<std::uint64_t>(second) + 1) == -1);
    check(recordio::find(bytes_of(file), UINT64_MAX - 8) == -1);
}

void searching_is_linear() {
    // Many first parts all lead into one chain of middle parts without a last part.
    constexpr std::size_t heads = 500;
    constexpr std::size_t middles = 3000;
    std::string file;
    for (std::size_t head = 0; head < heads; ++head) {
        file += word(recordio::magic) + word((1U << 29) | static_cast<std::uint32_t>(8 * (heads - 1 - head)));
    }
    for (std::size_t middle = 0; middle < middles; ++middle) file += part("", 2);
    recordio::Walks walks;
    check(recordio::find(bytes_of(file), 0, &walks) == -1);
    check(walks.looked() <= heads * (recordio::Walks::step + 1) + 2 * middles);
    check(recordio::find(bytes_of(file + part("", 3)), 0) == 0); // With an end, the first of them is a record.
    check(recordio::find(bytes_of(file + part("whole")), 0) == static_cast<std::int64_t>(file.size()));
}

/// First parts that lead into one chain of middle parts, which ends with `end`. Between each two of them, inside the
/// payload of the first, is a valid record.
std::string sound_records_and_heads(std::size_t heads, std::size_t middles, const std::string& end) {
    std::string file;
    for (std::size_t head = 0; head < heads; ++head) {
        const auto size = static_cast<std::uint32_t>(20 * (heads - 1 - head) + 12);
        file += word(recordio::magic) + word((1U << 29) | size) + part("good");
    }
    for (std::size_t middle = 0; middle < middles; ++middle) file += part("", 2);
    return file + end;
}

/// Scans a file and skips damage. Returns the number of records found.
std::size_t skip_through(const std::string& file, recordio::Walks& walks) {
    std::size_t records = 0;
    for (std::int64_t at = 0; at >= 0 && static_cast<std::size_t>(at) < file.size();) {
        const recordio::Scan found =
            recordio::scan(bytes_of(file), static_cast<std::uint64_t>(at), file.size(), file.size(), &walks);
        records += found.starts.size();
        if (!found.faulty) break;
        const bool goes_back = !found.starts.empty() && found.fault.fault == Fault::magic;
        at = recordio::find(bytes_of(file),
                            (goes_back ? static_cast<std::uint64_t>(found.starts.back()) : found.next) + 4, &walks);
    }
    return records;
}

void resuming_after_damage_is_linear() {
    constexpr std::size_t heads = 400;
    constexpr std::size_t middles = 20000;
    constexpr std::size_t bound =
        8 * (heads * (recordio::Walks::step + 1) + middles); // all pairs would be 160 times as many
    recordio::Walks walks;
    check(skip_through(sound_records_and_heads(heads, middles, ""), walks) == heads);
    check(walks.looked() < bound);
    recordio::Walks others; // With an end, each first part begins a whole but doubtful record.
    check(skip_through(sound_records_and_heads(heads, middles, part("", 3) + "no record"), others) >= heads);
    check(others.looked() < bound);
}

void bulk_scan_matches_a_walk() {
    for (const std::string& end :
         {std::string(), part("", 3), part("whole"), std::string("no part!"), part("", 2).substr(0, 5)}) {
        const std::string file = sound_records_and_heads(5, 500, end);
        recordio::Walks walks;
        for (std::uint64_t at = 0; at < 100; at += 20) {
            try {
                const std::uint64_t stop = recordio::record_at(bytes_of(file), at).end;
                check(walks.end_of(bytes_of(file), at) == stop);
            } catch (const FormatError& fault) {
                const FormatError found = fault_of([&] { (void)walks.end_of(bytes_of(file), at); });
                check(found.fault == fault.fault && found.offset == at);
                check(found.expected == fault.expected && found.found == fault.found);
            }
        }
    }
}

std::string framed(std::size_t spare) {
    std::string block;
    std::vector<std::int64_t> starts, sizes;
    for (const std::string_view payload : {"a", "", "four", "seven77"}) {
        block.append(8, '#');
        starts.push_back(static_cast<std::int64_t>(block.size()));
        sizes.push_back(static_cast<std::int64_t>(payload.size()));
        block.append(payload).append(recordio::padded(payload.size()) - payload.size() + spare, '#');
    }
    std::span<std::byte> bytes(reinterpret_cast<std::byte*>(block.data()), block.size());
    return block.substr(0, recordio::frame(bytes, starts, sizes));
}

void test_framing_in_place() {
    const std::string expected = part("a") + part("") + part("four") + part("seven77");
    check(framed(0) == expected);
    check(framed(3) == expected);
    check(framed(100) == expected);
}

void framing_refuses_oversized_payloads() {
    std::vector<std::byte> block(64);
    const auto refused = [&](std::vector<std::int64_t> starts, std::vector<std::int64_t> sizes) {
        return fault_of([&] { (void)recordio::frame(block, starts, sizes); });
    };
    check(refused({7}, {1}).fault == Fault::range);
    check(refused({8, 12}, {1, 1}).record == 1);
    check(refused({8}, {57}).fault == Fault::range);
    check(refused({8}, {-1}).fault == Fault::range);
    check(refused({-1}, {1}).fault == Fault::range);
    check(refused({INT64_MAX}, {8}).fault == Fault::range);
    const FormatError large = refused({8}, {std::int64_t{1} << 29});
    check(large.expected == (std::uint64_t{1} << 29) - 1 && large.found == std::uint64_t{1} << 29);
}

} // namespace

int main() {
    test_whole_records();
    test_multipart_records();
    faults_report_position_and_cause();
    a_bad_word_after_the_last_record_is_found_at_once();
    finds_the_next_record_after_damage();
    searching_is_linear();
    resuming_after_damage_is_linear();
    bulk_scan_matches_a_walk();
    test_framing_in_place();
    framing_refuses_oversized_payloads();
}

#include "core/csv/scan.hpp"

#include <random>
#include <string>

#include "base/cpus.hpp"
#include "check.hpp"
#include "csv/rows.hpp"

using namespace headrace;
using headrace::testing::bytes_of;
using headrace::testing::check;
using headrace::testing::fault_of;

namespace {

const csv::Dialect plain;

std::vector<std::int64_t> starts(std::string_view text, bool last = true) {
    return csv::scan(bytes_of(text), 0, text.size(), plain, {}, last, 100).starts;
}

void test_rows() {
    check(starts("1,2\n3,4\r\n5,6\r7,8") == std::vector<std::int64_t>{0, 4, 9, 13});
    check(starts("\n\r\n1\n\n2\n") == std::vector<std::int64_t>{3, 6});
    check(starts("\"a\nb\",c\nd\n") == std::vector<std::int64_t>{0, 8});
    check(starts("a\"b\nc\n") == std::vector<std::int64_t>{0, 4}, "a quote inside a field is text");
    check(starts("").empty());
    const csv::Row row = csv::row_at(bytes_of("ab\r\ncd"), 0, plain, true);
    check(row.end == 2 && row.next == 4);
}

void test_streams_wait() {
    for (const std::string_view text : {"1,2", "1,\"2", "1,2\r", "1,\"2\""}) {
        const FormatError error = fault_of([&] { (void)csv::row_at(bytes_of(text), 0, plain, false); });
        check(error.fault == Fault::truncated && error.offset == 0);
    }
    check(csv::row_at(bytes_of("1,2\n"), 0, plain, false).next == 4);
}

void test_faults() {
    FormatError error = fault_of([] { (void)csv::row_at(bytes_of("x\n1,\"a\"b\n"), 2, plain, true); });
    check(error.fault == Fault::structure && error.offset == 2 && error.found == 7);
    error = fault_of([] { (void)csv::row_at(bytes_of("1,\"a\n"), 0, plain, true); });
    check(error.fault == Fault::truncated && error.found == 2);
    error = fault_of([] { (void)csv::row_at(bytes_of("1"), 2, plain, true); });
    check(error.fault == Fault::truncated);
    const csv::Scan found = csv::scan(bytes_of("1,2\n3\n"), 0, 6, plain, {2, false}, true, 9);
    check(found.faulty && found.fault.fault == Fault::wrong_count && found.fault.record == 1 && found.fault.found == 1);
    const std::int64_t outside[1] = {-1};
    const Bytes files[1] = {bytes_of("1,2\n")};
    check(fault_of([&] { (void)csv::gather(files, {}, outside, plain); }).record == 0);
}

void test_rows_that_are_not_adjacent() {
    const std::int64_t falling[] = {4, 0}, outside[] = {0, 9};
    check(fault_of([&] { (void)csv::gather_adjacent(bytes_of("1,2\n3\n"), falling, 6); }).record == 0);
    check(fault_of([&] { (void)csv::gather_adjacent(bytes_of("1,2\n3\n"), outside, 6); }).fault == Fault::range);
    check(fault_of([&] { (void)csv::gather_adjacent(bytes_of("1,2\n3\n"), std::span(outside, 1), 7); }).fault ==
          Fault::range);
}

void test_values() {
    std::vector<char> room;
    const std::vector<Bytes> fields = csv::fields_of(bytes_of("1,\"a,\"\"b\"\"\",,\"\""), plain);
    check(fields.size() == 4);
    check(csv::value_of(fields[1], plain, room) == "a,\"b\"");
    check(csv::value_of(fields[2], plain, room).empty() && csv::value_of(fields[3], plain, room).empty());
    check(csv::find(bytes_of("ab\ncd\n"), 1) == 3 && csv::find(bytes_of("ab\ncd\n"), 4) == -1 && csv::find({}, 0) == 0);
}

/// Finds rows byte by byte, as scan.hpp says they are. Stops at a fault.
struct PlainScan {
    explicit PlainScan(std::string_view text_) : text(text_) {
        while (at < text.size() && !faulty) {
            if (text[at] == '\n' || text[at] == '\r') {
                ++at;
                continue;
            }
            row();
        }
    }

    void row() {
        const std::size_t begin = at;
        bool field_begins = true;
        while (at < text.size() && text[at] != '\n' && text[at] != '\r') {
            if (field_begins && text[at] == '"') {
                for (++at; at < text.size() && (text[at] != '"' || text.substr(at + 1, 1) == "\"");)
                    at += text[at] == '"' ? 2 : 1;
                faulty = at >= text.size() || (at + 1 < text.size() &&
                                               std::string_view(",\r\n").find(text[at + 1]) == std::string_view::npos);
                if (faulty) return void(at = begin);
                ++at;
                field_begins = false;
            } else {
                field_begins = text[at] == ',';
                ++at;
            }
        }
        starts.push_back(static_cast<std::int64_t>(begin));
        ends.push_back(at);
        if (at < text.size()) at += text.substr(at, 2) == "\r\n" ? 2 : 1;
    }

    std::string_view text;
    std::size_t at = 0;
    bool faulty = false;
    std::vector<std::int64_t> starts;
    std::vector<std::size_t> ends;
};

void compare(std::string_view text, std::mt19937& random) {
    const PlainScan wanted(text);
    for (const Cpu& cpu : headrace::testing::runnable_cpus()) {
        const csv::Scan found = csv::scan(bytes_of(text), 0, text.size(), plain, {}, true, text.size() + 1, cpu);
        check(found.starts == wanted.starts && found.faulty == wanted.faulty, text);
        check(found.next == wanted.at, text);
        if (wanted.starts.empty()) continue;
        const Bytes files[] = {bytes_of(text)};
        const auto rows = csv::gather(files, {}, wanted.starts, plain, cpu);
        for (std::size_t i = 0; i < rows.size(); ++i)
            check(rows[i].data() == files[0].data() + wanted.starts[i] &&
                      rows[i].size() == wanted.ends[i] - static_cast<std::size_t>(wanted.starts[i]),
                  text);
        const auto adjacent = csv::gather_adjacent(files[0], wanted.starts, wanted.at);
        for (std::size_t i = 0; i < rows.size(); ++i)
            check(adjacent[i].data() == rows[i].data() && adjacent[i].size() == rows[i].size(), text);
        std::vector<std::int64_t> some;
        std::vector<std::size_t> ends;
        for (int i = 0; i < 20; ++i) {
            const std::size_t k = random() % wanted.starts.size();
            some.push_back(wanted.starts[k]);
            ends.push_back(wanted.ends[k]);
        }
        const auto picked = csv::gather(files, {}, some, plain, cpu);
        for (std::size_t i = 0; i < picked.size(); ++i)
            check(picked[i].size() == ends[i] - static_cast<std::size_t>(some[i]), text);
        // In parts that begin where the one before ended, of few rows, and as part of a stream.
        std::vector<std::int64_t> joined;
        std::uint64_t at = 0;
        while (at < text.size()) {
            const std::uint64_t stop = at + 1 + random() % 200;
            const std::size_t most = 1 + random() % 5;
            const csv::Scan part = csv::scan(bytes_of(text), at, stop, plain, {}, true, most, cpu);
            check(part.starts.size() <= most &&
                  (part.starts.empty() || static_cast<std::uint64_t>(part.starts.back()) < stop));
            joined.insert(joined.end(), part.starts.begin(), part.starts.end());
            if (part.faulty) break;
            at = part.next;
        }
        check(joined == wanted.starts, text);
        const std::size_t cut = random() % (text.size() + 1);
        const csv::Scan stream = csv::scan(bytes_of(text.substr(0, cut)), 0, cut, plain, {}, false, cut + 1, cpu);
        check(stream.starts.size() <= wanted.starts.size() &&
                  std::equal(stream.starts.begin(), stream.starts.end(), wanted.starts.begin()),
              text);
    }
}

void test_against_the_plain_way() {
    std::mt19937 random(15);
    for (int round = 0; round < 1500; ++round) {
        std::string text = headrace::testing::random_rows(random, random() % 40);
        compare(text, random);
        if (text.empty()) continue;
        text[random() % text.size()] = "\",\n\rx"[random() % 5];
        compare(text, random);
    }
}

void test_other_dialects() {
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
        std::string text = headrace::testing::random_rows(random, 30);
        const PlainScan wanted(text);
        for (char& byte : text) byte = byte == ',' ? ';' : byte == '"' ? '\'' : byte;
        for (const Cpu& cpu : headrace::testing::runnable_cpus()) {
            const csv::Scan found = csv::scan(bytes_of(text), 0, text.size(), {';', '\'', '.'}, {}, true, 10'000, cpu);
            check(found.starts == wanted.starts && found.faulty == wanted.faulty, text);
            const csv::Scan lines =
                csv::scan(bytes_of(text), 0, text.size(), {';', std::nullopt, '.'}, {}, true, 10'000, cpu);
            std::vector<std::int64_t> starts;
            for (std::size_t i = 0; i < text.size(); ++i)
                if (text[i] != '\n' && text[i] != '\r' && (i == 0 || text[i - 1] == '\n' || text[i - 1] == '\r'))
                    starts.push_back(static_cast<std::int64_t>(i));
            check(lines.starts == starts && !lines.faulty, text);
        }
    }
}

} // namespace

int main() {
    test_against_the_plain_way();
    test_other_dialects();
    test_rows();
    test_streams_wait();
    test_faults();
    test_rows_that_are_not_adjacent();
    test_values();
}

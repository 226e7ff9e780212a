#include "core/base/spans.hpp"

#include <algorithm>

#include "check.hpp"
#include "core/framing/tfrecord.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

// Two records with the payloads "" and "hello".
std::vector<std::byte> two() {
    std::vector<std::byte> block(2 * tfrecord::overhead + 5);
    const std::int64_t starts[] = {12, 28};
    const std::int64_t sizes[] = {0, 5};
    std::memcpy(block.data() + 28, "hello", 5);
    tfrecord::frame(block, starts, sizes);
    return block;
}

Spans spans_over(Bytes file, Seal seal) {
    Spans spans;
    spans.payloads = {file.subspan(12, 0), file.subspan(28, 5)};
    spans.seal = seal;
    return spans;
}

void valid_records_pass() {
    const auto file = two();
    const Spans spans = spans_over(file, Seal::tfrecord);
    spans.check(0);
    spans.check(1);
}

void every_flipped_bit_is_seen() {
    for (std::size_t at = 28; at < 37; ++at)
        for (unsigned bit = 0; bit < 8; ++bit) {
            auto file = two();
            file[at] ^= static_cast<std::byte>(1U << bit);
            const Spans spans = spans_over(file, Seal::tfrecord);
            spans.check(0);
            const FormatError error = fault_of([&] { spans.check(1); });
            check(error.fault == Fault::payload_checksum && error.record == 1 && error.offset == tfrecord::header_size);
            check(error.expected == load_le<std::uint32_t>(file.data() + 33) && error.found != error.expected);
            spans_over(file, Seal::none).check(1); // no seal, so no fault
        }
}

void a_reader_checks_what_it_reads() {
    const std::size_t sizes[] = {0, 3, 70, 5000, 12, 9000, 0, 300};
    std::vector<std::int64_t> starts, lengths;
    std::size_t end = 0;
    for (int round = 0; round < 40; ++round) // more than is prefetched at once
        for (const std::size_t size : sizes) {
            starts.push_back(static_cast<std::int64_t>(end + tfrecord::header_size));
            lengths.push_back(static_cast<std::int64_t>(size));
            end += size + tfrecord::overhead;
        }
    std::vector<std::byte> file(end);
    for (std::size_t at = 0; at < end; ++at) file[at] = static_cast<std::byte>(at * 7);
    tfrecord::frame(file, starts, lengths);
    Spans spans;
    for (std::size_t i = 0; i < starts.size(); ++i)
        spans.payloads.push_back(
            Bytes(file).subspan(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i])));
    for (const Seal seal : {Seal::none, Seal::tfrecord})
        for (const std::size_t step : {1U, 3U}) {
            spans.seal = seal;
            PayloadReader reader(spans);
            for (std::size_t i = 0; i < starts.size(); i += step)
                check(reader.read(i).data() == spans.payloads[i].data());
        }
    file[static_cast<std::size_t>(starts[61])] ^= std::byte{1};
    PayloadReader reader(spans);
    for (std::size_t i = 0; i < 61; ++i) reader.read(i);
    const FormatError error = fault_of([&] { reader.read(61); });
    check(error.fault == Fault::payload_checksum && error.record == 61);
    reader.read(62);
}

void alternatives_are_found_by_record() {
    Spans spans;
    spans.payloads.resize(6);
    check(spans.alternative(0) == nullptr);
    spans.alternatives = {{1, bytes_of("a")}, {4, bytes_of("b")}};
    for (const std::size_t i : {0, 2, 3, 5}) check(spans.alternative(i) == nullptr);
    check(spans.alternative(1) == &spans.alternatives[0] && spans.alternative(4) == &spans.alternatives[1]);
}

std::string swapped_plainly(std::string numbers, std::size_t size) {
    for (std::size_t at = 0; at + size <= numbers.size(); at += size)
        std::reverse(numbers.begin() + static_cast<std::ptrdiff_t>(at),
                     numbers.begin() + static_cast<std::ptrdiff_t>(at + size));
    return numbers;
}

void bytes_of_numbers_are_swapped() {
    for (const Cpu& cpu : {Cpu{}, this_cpu})
        for (const std::size_t size : {2UL, 4UL, 8UL})
            for (std::size_t length = 0; length < 131; ++length) {
                std::string numbers(length, '?');
                for (std::size_t i = 0; i < length; ++i) numbers[i] = static_cast<char>(i * 7 + 1);
                const std::string wanted = swapped_plainly(numbers, size);
                swap_bytes({reinterpret_cast<std::byte*>(numbers.data()), length}, size, cpu);
                check(numbers == wanted);
            }
}

void rows_are_gathered() {
    const std::string_view rows = "aabbccddee";
    const auto take = [rows](std::vector<std::int64_t> indices) {
        std::string out(indices.size() * 2, '?');
        take_rows({bytes_of(rows), 2, 5}, indices, reinterpret_cast<std::byte*>(out.data()));
        return out;
    };
    check(take({0, 1, 2, 3, 4}) == rows);
    check(take({1, 2, 3}) == "bbccdd" && take({3}) == "dd");
    check(take({4, 0, 1, 1, 3}) == "eeaabbbbdd");
    check(fault_of([&] { (void)take({3, 4, 5}); }).record == 2); // a run past the end
    check(fault_of([&] { (void)take({-2, -1, 0}); }).record == 0);
    check(take({}).empty());
    for (const std::int64_t bad : {std::int64_t{5}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
        std::string out(4, '?');
        const std::int64_t indices[] = {1, bad};
        const FormatError error =
            fault_of([&] { take_rows({bytes_of(rows), 2, 5}, indices, reinterpret_cast<std::byte*>(out.data())); });
        check(error.fault == Fault::range && error.record == 1 && out == "????"); // and nothing was written
    }
    const std::int64_t empty_rows[] = {0, 7};
    take_rows({{}, 0, 8}, empty_rows, nullptr); // rows of zero bytes are still rows
    check(fault_of([&] { take_rows({{}, 0, 7}, empty_rows, nullptr); }).record == 1);

    const std::vector<Bytes> files = {bytes_of(rows), bytes_of(std::string_view("0123456789"))};
    const auto take_places = [&files](const std::vector<std::int32_t>& which, std::vector<std::int64_t> offsets) {
        std::string found(offsets.size() * 3, '?');
        take_ranges(files, which.empty() ? nullptr : which.data(), offsets, 3,
                    reinterpret_cast<std::byte*>(found.data()));
        return found;
    };
    check(take_places({1, 0, 1, 1}, {7, 0, 0, 3}) == "789aab012345");
    check(take_places({}, {0, 3, 6}) == "aabbccdde");
    check(take_places({}, {}).empty());
    check(fault_of([&] { (void)take_places({0, 1}, {0, 8}); }).record == 1); // past the end
    check(fault_of([&] { (void)take_places({0, 2}, {0, 0}); }).record == 1); // no such file
    check(fault_of([&] { (void)take_places({-1, 0}, {0, 0}); }).record == 0);
    check(fault_of([&] { (void)take_places({0, 0}, {0, -1}); }).fault == Fault::range);
    check(fault_of([&] { (void)take_places({0, 0}, {0, INT64_MAX}); }).fault == Fault::range);

    // Many rows, in runs and out of order: neither fixed sizes nor prefetching must change the result.
    for (const std::size_t size :
         {1UL, 2UL, 3UL, 4UL, 8UL, 15UL, 16UL, 32UL, 64UL, 65UL, 700UL, 8191UL, 8193UL, 12'288UL, 65'535UL, 65'537UL}) {
        std::string many(300 * size, '?');
        for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<char>(i / size * 31 + i % size);
        std::vector<std::int64_t> order;
        for (std::int64_t i = 0; i < 50; ++i) order.push_back(i % 10 < 5 ? 100 + i % 10 : i * 37 % 300);
        std::string out(order.size() * size, '?');
        take_rows({bytes_of(many), size, 300}, order, reinterpret_cast<std::byte*>(out.data()));
        for (std::size_t i = 0; i < order.size(); ++i)
            check(out.compare(i * size, size, many, static_cast<std::size_t>(order[i]) * size, size) == 0);
        for (const std::size_t number : {2UL, 4UL, 8UL}) {
            if (size % number != 0) continue;
            std::string swapped(out.size(), '?');
            take_rows({bytes_of(many), size, 300}, order, reinterpret_cast<std::byte*>(swapped.data()), number);
            check(swapped == swapped_plainly(out, number));
        }
    }
}

void rows_that_vary_are_padded_and_taken() {
    const std::string text = "aabbccddee";
    const std::vector<std::int64_t> offsets = {0, 2, 2, 5};
    const VaryingRows rows{{bytes_of(text), 2, 5}, offsets};
    const auto padded = [&](std::size_t length, const std::string& fill) {
        std::string out(3 * length * 2, '?');
        pad_rows(rows, length, bytes_of(fill), reinterpret_cast<std::byte*>(out.data()));
        return out;
    };
    check(padded(3, "xy") == "aabbxyxyxyxyccddee");
    check(padded(2, "xy") == "aabbxyxyccdd");
    check(padded(4, std::string(2, '\0')) == std::string("aabb\0\0\0\0\0\0\0\0\0\0\0\0ccddee\0\0", 24));
    check(padded(0, "xy").empty());

    const auto taken = [&](const std::vector<std::int64_t>& indices, const std::vector<std::size_t>& ends) {
        std::string out(ends.empty() ? 0 : ends.back(), '?');
        take_varying_rows({&rows, 1}, nullptr, indices, ends, reinterpret_cast<std::byte*>(out.data()));
        return out;
    };
    check(taken({2, 1, 0, 2}, {6, 6, 10, 16}) == "ccddeeaabbccddee");
    check(taken({}, {}).empty());
    check(fault_of([&] { (void)taken({0, 3}, {4, 4}); }).record == 1);
    check(fault_of([&] { (void)taken({-1}, {0}); }).record == 0);
    check(fault_of([&] { (void)taken({0, 2}, {4, 8}); }).record == 1); // of another size than was counted

    const std::string more = "ffgghh";
    const std::vector<std::int64_t> cuts = {0, 1, 3};
    const std::vector<VaryingRows> parts = {rows, {{bytes_of(more), 2, 3}, cuts}};
    const auto mixed = [&](const std::vector<std::int32_t>& which, const std::vector<std::int64_t>& indices) {
        std::string out(16, '?');
        const std::vector<std::size_t> ends = {4, 6, 10, 16};
        take_varying_rows(parts, which.data(), indices, ends, reinterpret_cast<std::byte*>(out.data()));
        return out;
    };
    check(mixed({1, 1, 0, 0}, {1, 0, 0, 2}) == "gghhffaabbccddee");
    check(fault_of([&] { (void)mixed({1, 1, 2, 0}, {1, 0, 0, 2}); }).record == 2); // no such part
    check(fault_of([&] { (void)mixed({1, -1, 0, 0}, {1, 0, 0, 2}); }).record == 1);
    check(fault_of([&] { (void)mixed({1, 1, 0, 1}, {1, 0, 0, 2}); }).record == 3); // of the other part
    for (const std::vector<std::int64_t>& wrong :
         std::vector<std::vector<std::int64_t>>{{0, 6}, {3, 2}, {-1, 2}, {0, -1}, {0, INT64_MAX}}) {
        std::string out(64, '?');
        const VaryingRows others{rows.elements, wrong};
        check(fault_of([&] { pad_rows(others, 1, bytes_of("xy"), reinterpret_cast<std::byte*>(out.data())); }).fault ==
              Fault::range);
    }
    check(fault_of([&] { (void)VaryingRows{rows.elements, {}}.row(0, 7); }).record == 7);
    check(rows.row(2, 0).count == 3);
}

// As by halving, for parts of equal and of very different sizes, empty ones, and none.
void parts_are_found() {
    std::vector<std::vector<std::int64_t>> tables = {{}, {0}, {3}, {0, 0}, {0, 5}, {2, 5, 5, 9}, {0, 0, 0, 4, 4, 4}};
    std::vector<std::int64_t> equal, odd;
    for (std::int64_t i = 0; i <= 300; ++i) {
        equal.push_back(i * 7);
        odd.push_back(i * i * i / 1000);
    }
    tables.push_back(equal);
    tables.push_back(odd);
    for (const auto& firsts : tables) {
        std::vector<std::int64_t> positions;
        for (std::int64_t i = 0; i < 3000; ++i) positions.push_back(i * 7919 % 30'000 - 50);
        for (std::int64_t i = -3; i < 3000; ++i) positions.push_back(i);
        std::vector<std::int32_t> found(positions.size());
        find_parts(firsts, positions, found.data());
        for (std::size_t i = 0; i < positions.size(); ++i)
            check(found[i] == std::ranges::upper_bound(firsts, positions[i]) - firsts.begin() - 1);
    }
}

} // namespace

int main() {
    parts_are_found();
    rows_that_vary_are_padded_and_taken();
    bytes_of_numbers_are_swapped();
    rows_are_gathered();
    alternatives_are_found_by_record();
    valid_records_pass();
    every_flipped_bit_is_seen();
    a_reader_checks_what_it_reads();
}

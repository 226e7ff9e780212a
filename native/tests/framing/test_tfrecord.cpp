#include "core/framing/tfrecord.hpp"

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

// The records "", "a" and "hello", as written by TensorFlow.
std::vector<std::byte> three() {
    std::vector<std::byte> block(3 * tfrecord::overhead + 6);
    const std::int64_t starts[] = {12, 28, 45};
    const std::int64_t sizes[] = {0, 1, 5};
    std::memcpy(block.data() + 28, "a", 1);
    std::memcpy(block.data() + 45, "hello", 5);
    tfrecord::frame(block, starts, sizes);
    return block;
}

void frames_match_the_reference_writer() {
    const auto expected = from_hex("0000000000000000 29039807 d8ea82a2"); // an empty record
    const auto block = three();
    check(std::equal(expected.begin(), expected.end(), block.begin()));
}

void test_scanning() {
    const auto file = three();
    const auto found = tfrecord::scan(file, 0, file.size(), true, 100);
    check(!found.faulty && found.next == file.size() && found.starts == std::vector<std::int64_t>{0, 16, 33});
    check(tfrecord::scan(file, 0, file.size(), true, 2).next == 33);
    check(tfrecord::scan(file, 0, 17, true, 100).starts.size() == 2); // those that begin before `stop`
    check(bytes_of("hello").size() == tfrecord::payload_at(file, 33, tfrecord::Checks::all).size());
}

void every_truncation_is_a_fault() {
    const auto file = three();
    for (std::size_t size = 0; size < file.size(); ++size) {
        const auto found = tfrecord::scan(Bytes(file).first(size), 0, size, true, 100);
        const bool clean = size == 0 || size == 16 || size == 33;
        check(found.faulty != clean);
        if (found.faulty)
            check(found.fault.fault == Fault::truncated && found.fault.offset == (size < 16 ? 0 : size < 33 ? 16 : 33));
    }
}

void every_flip_is_a_fault() {
    for (std::size_t i = 0; i < three().size(); ++i) {
        auto file = three();
        file[i] ^= std::byte{0x10};
        const auto found = tfrecord::scan(file, 0, file.size(), true, 100);
        check(found.faulty);
        const std::int64_t next = tfrecord::find(file, found.next);
        check(next == (i < 16 ? 16 : i < 33 ? 33 : -1)); // the next whole record, whatever the damage
    }
}

void patience_is_spent_over_calls() {
    auto file = three();
    file[45] ^= std::byte{1}; // in the last payload, whose five bytes are checksummed in vain
    tfrecord::Patience patience = tfrecord::Patience::of(file.size());
    check(patience.left == 64 * file.size());
    check(tfrecord::find(file, 17, &patience) == -1 && patience.left == 64 * file.size() - 5);
    patience.left = 4;
    check(tfrecord::find(three(), 17, &patience) == -1); // valid, but longer than the remaining budget
    check(tfrecord::find(three(), 1, &patience) == 16 && patience.left == 4);
    patience.spend(9);
    check(patience.left == 0);
}

void lengths_are_checked_before_use() {
    auto file = three();
    store_le<std::uint64_t>(file.data(), std::uint64_t{1} << 62);
    check(fault_of([&] { (void)tfrecord::payload_at(file, 0, tfrecord::Checks::bounds); }).fault == Fault::truncated);
    store_le<std::uint64_t>(file.data(), UINT64_MAX - 3);
    check(fault_of([&] { (void)tfrecord::payload_at(file, 0, tfrecord::Checks::bounds); }).fault == Fault::truncated);
    check(fault_of([&] { (void)tfrecord::payload_at(file, UINT64_MAX, tfrecord::Checks::all); }).fault ==
          Fault::truncated);
}

void test_gathering() {
    const auto one = three();
    auto other = three();
    other[33] ^= std::byte{1}; // in the length of its last record
    const Bytes files[] = {bytes_of(one), bytes_of(other)};
    const auto gather = [&files](std::vector<std::int32_t> which, std::vector<std::int64_t> offsets,
                                 tfrecord::Checks checks) { return tfrecord::gather(files, which, offsets, checks); };
    const auto found = gather({1, 0, 0, 1}, {16, 33, 0, 0}, tfrecord::Checks::lengths);
    check(found.size() == 4 && found[0].data() == other.data() + 28 && found[1].data() == one.data() + 45 &&
          found[1].size() == 5);
    check(gather({}, {33}, tfrecord::Checks::all).front().data() ==
          one.data() + 45); // without `which`: in the first file
    check(gather({}, {}, tfrecord::Checks::all).empty());
    check(gather(std::vector<std::int32_t>(100, 1), std::vector<std::int64_t>(100, 16), tfrecord::Checks::all).size() ==
          100);

    const auto fault = [&gather](std::int32_t file, std::int64_t offset) {
        return fault_of([&] { (void)gather({0, file}, {0, offset}, tfrecord::Checks::lengths); });
    };
    check(fault(1, 33).fault == Fault::length_checksum && fault(1, 33).record == 1 && fault(1, 33).offset == 33);
    check(fault(2, 0).fault == Fault::range && fault(-1, 0).fault == Fault::range && fault(2, 0).record == 1);
    for (const std::int64_t offset : {std::int64_t{-1}, INT64_MIN, INT64_MAX, std::int64_t{54}, std::int64_t{50}})
        check(fault(0, offset).fault == Fault::truncated);
    check(fault_of([&] {
              (void)tfrecord::gather({}, {}, std::vector<std::int64_t>{0}, tfrecord::Checks::all);
          }).fault == Fault::range);
}

void frames_that_do_not_fit_are_refused() {
    std::vector<std::byte> block(20);
    const auto frame = [&block](std::int64_t start, std::int64_t size) {
        return fault_of([&] { tfrecord::frame(block, {&start, 1}, {&size, 1}); }).fault;
    };
    check(frame(11, 1) == Fault::range && frame(12, 5) == Fault::range && frame(12, -1) == Fault::range &&
          frame(INT64_MAX, 1) == Fault::range);
}

} // namespace

int main() {
    frames_match_the_reference_writer();
    test_scanning();
    every_truncation_is_a_fault();
    every_flip_is_a_fault();
    patience_is_spent_over_calls();
    lengths_are_checked_before_use();
    test_gathering();
    frames_that_do_not_fit_are_refused();
}

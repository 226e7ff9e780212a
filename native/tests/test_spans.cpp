#include "core/base/spans.hpp"

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

void sound_records_pass() {
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
            spans_over(file, Seal::none).check(1); // nothing to check, nothing found
        }
}

void alternatives_are_found_by_record() {
    Spans spans;
    spans.payloads.resize(6);
    check(spans.alternative(0) == nullptr);
    spans.alternatives = {{1, bytes_of("a")}, {4, bytes_of("b")}};
    for (const std::size_t i : {0, 2, 3, 5}) check(spans.alternative(i) == nullptr);
    check(spans.alternative(1) == &spans.alternatives[0] && spans.alternative(4) == &spans.alternatives[1]);
}

} // namespace

int main() {
    alternatives_are_found_by_record();
    sound_records_pass();
    every_flipped_bit_is_seen();
}

#include "core/protobuf/example/steps.hpp"

namespace headrace::example {
namespace {

/// Finds the content of a step with one run of numbers, or one text, whose lengths all take one byte: each then follows
/// from the first one. False for any other step.
bool small_step(Kind kind, Bytes steps, Bytes& content) noexcept {
    constexpr std::size_t head = 6;
    if (steps.size() < 8 || kind == Kind::number) return false;
    const auto found = load_le<std::uint64_t>(steps.data());
    const std::uint64_t size = found >> 8 & 0xFF;
    if (size < head - 2 || size > 0x7F || size + 2 > steps.size()) return false;
    const std::uint64_t tag = static_cast<std::uint64_t>(kind) << 3 | static_cast<std::uint64_t>(proto::Wire::bytes);
    const std::uint64_t expected =
        0x0A | size << 8 | tag << 16 | (size - 2) << 24 | std::uint64_t{0x0A} << 32 | (size - 4) << 40;
    if ((found & 0xFFFFFFFFFFFF) != expected) return false;
    content = steps.subspan(head, static_cast<std::size_t>(size) + 2 - head);
    return true;
}

/// Copies whole floats, 16 bytes at a time: a call for each step would cost more than the copy.
void copy_floats(std::byte* to, const std::byte* from, std::size_t size) noexcept {
    constexpr std::size_t vector = 16, most = 256;
    if (size > most) {
        std::memcpy(to, from, size);
        return;
    }
    std::size_t at = 0;
    for (; size - at >= vector; at += vector) std::memcpy(to + at, from + at, vector);
    for (; at < size; at += sizeof(float)) std::memcpy(to + at, from + at, sizeof(float));
}

} // namespace

std::size_t StepTemplate::copy(Bytes steps, std::byte* to) const noexcept {
    if (size_ == 0) return 0;
    const std::size_t values = size_ - head_size_;
    std::size_t at = 0, found = 0;
    for (; steps.size() - at >= size_ && matches(steps.data() + at); at += size_, to += values, ++found)
        copy_floats(to, steps.data() + at + head_size_, values);
    return found;
}

void StepTemplate::learn(const std::byte* begin, Bytes numbers) noexcept {
    constexpr std::size_t word = sizeof first_;
    const auto head = static_cast<std::size_t>(numbers.data() - begin);
    size_ = 0;
    if (head > 2 * word || numbers.empty() || head + numbers.size() < word) return;
    first_mask_ = head >= word ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * head) - 1;
    first_ = load_le<std::uint64_t>(begin) & first_mask_;
    if (head > word) last_ = load_le<std::uint64_t>(begin + head - word);
    head_size_ = head;
    size_ = head + numbers.size();
}

std::size_t StepReader::read(Part list, ColumnWriter& column) {
    const Kind kind = column.spec().kind;
    Cursor cursor = list.cursor();
    std::size_t steps = 0;
    while (!cursor.done()) {
        const Bytes rest{cursor.position(), cursor.remaining()};
        if (usual_.begins(rest)) {
            const std::size_t numbers = usual_.values() / sizeof(float);
            const std::size_t count = usual_.copy(rest, column.room_for_steps(usual_.most(rest), numbers));
            column.end_steps(count, numbers);
            cursor.skip(count * usual_.size());
            steps += count;
            if (count != 0) continue; // else the bytes changed
        }
        if (Bytes content; small_step(kind, rest, content)) {
            const std::byte* const end = content.data() + content.size();
            const bool is_added = kind == Kind::bytes
                                      ? column.add_text(content, rest.data() + rest.size())
                                      : (kind == Kind::int64 && column.add_integer(content)) || column.add_run(content);
            if (is_added) {
                if (kind == Kind::float32) usual_.learn(rest.data(), content);
                cursor.skip(static_cast<std::size_t>(end - rest.data()));
                ++steps;
                continue;
            }
        }
        const proto::Tag tag = proto::read_tag(cursor);
        if (tag.field != 1 || tag.wire != proto::Wire::bytes) {
            proto::skip_value(cursor, tag);
            continue;
        }
        step_.clear();
        merge_feature(list.of(proto::read_bytes(cursor)), step_);
        column.add_step(step_);
        ++steps;
        learn(column, rest.data(), cursor.position());
    }
    return steps;
}

// Floats take the same bytes in every step, so steps differ only in their values.
void StepReader::learn(const ColumnWriter& column, const std::byte* begin, const std::byte* end) {
    Part run;
    if (column.spec().kind != Kind::float32 || step_.kind != Kind::float32 || !sole_packed_run(step_, run)) return;
    if (run.bytes.data() + run.bytes.size() == end) usual_.learn(begin, run.bytes);
}

} // namespace headrace::example

#include "core/base/spans.hpp"

#include <algorithm>
#include <atomic>

#include "core/base/mapped_files.hpp"
#include "core/checksum/crc32c.hpp"
#include "core/framing/tfrecord.hpp"

#ifdef HEADRACE_X86
#include <immintrin.h>
#endif

namespace headrace {
namespace {

constexpr std::size_t most_prefetched = 4096; // bytes of one payload
constexpr std::size_t most_ahead = 4096; // bytes of all that follow: more would push out of the cache what is decoded

void prefetch_lines(Bytes bytes) noexcept {
#if defined(__GNUC__) || defined(__clang__)
    constexpr std::size_t line = 64;
    for (std::size_t at = 0; at < bytes.size(); at += line) __builtin_prefetch(bytes.data() + at);
#else
    (void)bytes;
#endif
}

} // namespace

const Alternative* Spans::alternative(std::size_t i) const noexcept {
    const auto found =
        std::lower_bound(alternatives.begin(), alternatives.end(), i,
                         [](const Alternative& other, std::size_t record) { return other.record < record; });
    return found != alternatives.end() && found->record == i ? &*found : nullptr;
}

void Spans::check(std::size_t i) const {
    if (seal != Seal::none) compare(i, crc32c(payloads[i]));
}

void Spans::compare(std::size_t i, std::uint32_t crc) const {
    const Bytes payload = payloads[i];
    const auto stored = load_le<std::uint32_t>(payload.data() + payload.size());
    const std::uint32_t computed = mask_crc(crc);
    if (stored == computed) return;
    FormatError error(Fault::payload_checksum, tfrecord::header_size, stored, computed);
    error.record = static_cast<std::int64_t>(i);
    throw error;
}

PayloadReader::PayloadReader(const Spans& spans) noexcept : guard_(GuardedRead::current()), spans_(&spans) {
    if (guard_ != nullptr && !guard_->looks_behind(spans.payloads)) guard_ = nullptr;
}

Bytes PayloadReader::read(std::size_t i) {
    const Spans& spans = *spans_;
    const Bytes payload = spans.payloads[i];
    if (next_ > i) ahead_ -= payload.size();
    else next_ = i + 1, ahead_ = 0;
    Bytes last;
    while (next_ < spans.payloads.size() && ahead_ < most_ahead) {
        prefetch_lines(last);
        last = spans.payloads[next_++];
        ahead_ += last.size();
        last = last.first(std::min(last.size(), most_prefetched));
    }
    if (spans.seal == Seal::none) prefetch_lines(last);
    else spans.compare(i, crc32c_prefetching(payload, last));
    last_ = i;
    return payload;
}

void PayloadReader::look_behind() noexcept {
#ifndef __SANITIZE_THREAD__                              // which does not support fences
    std::atomic_thread_fence(std::memory_order_acquire); // Read the seal after the payload.
#endif
    const Bytes payload = spans_->payloads[last_];
    left_ += load_le<std::uint32_t>(payload.data() + payload.size()) != 0 ? 1 : 0;
}

void PayloadReader::note_intact() const noexcept {
    if (guard_ != nullptr && left_ == spans_->payloads.size()) guard_->note_intact();
}

namespace {

FormatError out_of_range(std::uint64_t found, std::uint64_t expected, std::size_t record) noexcept {
    FormatError error(Fault::range, 0, expected, found);
    error.record = static_cast<std::int64_t>(record);
    return error;
}

void check_range(const Rows& rows, std::span<const std::int64_t> indices) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
        const auto index = static_cast<std::uint64_t>(indices[i]); // Negative indices become too large.
        if (index >= rows.count) throw out_of_range(index, rows.count, i);
    }
}

// The first lines are enough: then the hardware prefetcher takes over. Measured in programs outside the project: on an
// AMD (2026-11-25), rows of 3 kB took a tenth longer with their first 1024 bytes than with 256, those of 12 kB a sixth
// longer with all. On an Intel Xeon (2026-11-28), rows of 600 to 4096 bytes took 3 to 7 % less with 512, and 5 to 14 %
// less with 1024.
void prefetch(const std::byte* row, std::size_t size) {
    constexpr std::size_t most = 512;
    prefetch_lines({row, std::min(size, most)});
}

void check_places(std::span<const Bytes> files, const std::int32_t* which, std::span<const std::int64_t> offsets,
                  std::size_t size) {
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        const std::size_t number = which != nullptr ? static_cast<std::size_t>(which[i]) : 0;
        const auto offset = static_cast<std::uint64_t>(offsets[i]); // Negative offsets become too large.
        const std::size_t has = number < files.size() ? files[number].size() : 0;
        if (number < files.size() && offset <= has && size <= has - offset) continue;
        FormatError error(Fault::range, 0, has, offset);
        error.record = static_cast<std::int64_t>(i);
        throw error;
    }
}

// Copies pieces of a size that the compiler knows: one or two moves each, so that the processor waits for many of them
// at once, without being told.
template <std::size_t size, typename From>
void copy_small(std::size_t count, const From& from, std::byte* out) noexcept {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(out + i * size, from(i), size);
}

/// Copies `count` pieces of `size` bytes; piece i is at `from(i)`. Copies adjacent pieces together.
template <typename From> void copy_pieces(std::size_t count, std::size_t size, const From& from, std::byte* out) {
    if (size == 0 || count == 0) return;
    if (count == 1 || from(count - 1) != from(0) + (count - 1) * size) { // not in order
        switch (size) {
        case 1: return copy_small<1>(count, from, out);
        case 2: return copy_small<2>(count, from, out);
        case 4: return copy_small<4>(count, from, out);
        case 8: return copy_small<8>(count, from, out);
        case 16: return copy_small<16>(count, from, out);
        case 32: return copy_small<32>(count, from, out);
        case 64: return copy_small<64>(count, from, out);
        default: break;
        }
    }
    // A small piece takes less time to copy than to fetch from memory, so prefetch several ahead.
    const std::size_t ahead = std::clamp<std::size_t>(8192 / size, 1, 16);
    for (std::size_t i = 0; i < count;) {
        std::size_t run = 1;
        while (i + run < count && from(i + run) == from(i) + run * size) ++run;
        const std::size_t next = i + run - 1 + ahead;
        if (next < count) prefetch(from(next), size);
        std::memcpy(out, from(i), run * size);
        out += run * size;
        i += run;
    }
}

template <typename Number> void swap_each(std::span<std::byte> numbers) noexcept {
    for (std::size_t at = 0; at + sizeof(Number) <= numbers.size(); at += sizeof(Number)) {
        std::byte* const number = numbers.data() + at;
        std::reverse(number, number + sizeof(Number));
    }
}

#ifdef HEADRACE_X86
// Returns how many bytes it swapped: those of whole vectors.
__attribute__((target("avx2"))) std::size_t swap_vectors(std::span<std::byte> numbers, std::size_t size) noexcept {
    constexpr std::size_t vector = sizeof(__m256i);
    alignas(vector) std::uint8_t order[vector];
    for (std::size_t i = 0; i < vector; ++i)
        order[i] = static_cast<std::uint8_t>(i % 16 / size * size + size - 1 - i % size);
    const __m256i shuffle = _mm256_load_si256(reinterpret_cast<const __m256i*>(order));
    std::size_t at = 0;
    for (; at + vector <= numbers.size(); at += vector) {
        auto* const part = reinterpret_cast<__m256i*>(numbers.data() + at);
        _mm256_storeu_si256(part, _mm256_shuffle_epi8(_mm256_loadu_si256(part), shuffle));
    }
    return at;
}
#endif

/// Copies pieces as above and swaps the bytes of their numbers while they are in the cache.
template <typename From>
void copy_swapped(std::size_t count, std::size_t size, const From& from, std::byte* out, std::size_t swapped) {
    if (swapped == 0 || size == 0) return copy_pieces(count, size, from, out);
    constexpr std::size_t at_once = 16 << 10; // bytes: half of the nearest cache
    const std::size_t most = std::max<std::size_t>(at_once / size, 1);
    for (std::size_t i = 0; i < count; i += most) {
        const std::size_t pieces = std::min(most, count - i);
        std::byte* const to = out + i * size;
        copy_pieces(pieces, size, [&](std::size_t k) { return from(i + k); }, to);
        swap_bytes({to, pieces * size}, swapped);
    }
}

} // namespace

void swap_bytes(std::span<std::byte> numbers, std::size_t size, const Cpu& cpu) noexcept {
#ifdef HEADRACE_X86
    if (cpu.avx2) numbers = numbers.subspan(swap_vectors(numbers, size));
#else
    (void)cpu;
#endif
    switch (size) {
    case 2: return swap_each<std::uint16_t>(numbers);
    case 4: return swap_each<std::uint32_t>(numbers);
    default: return swap_each<std::uint64_t>(numbers);
    }
}

bool is_run(std::span<const std::int64_t> all) noexcept {
    // Without branches in it, the compiler compares several at once.
    constexpr std::size_t at_once = 256;
    for (std::size_t begin = 0; begin < all.size(); begin += at_once) {
        const std::size_t end = std::min(begin + at_once, all.size());
        const auto first = static_cast<std::uint64_t>(all.front());
        std::uint64_t others = 0;
        for (std::size_t k = begin; k < end; ++k) others |= static_cast<std::uint64_t>(all[k]) ^ (first + k);
        if (others != 0) return false;
    }
    return all.empty() || all.front() <= all.back(); // beyond the largest number it begins anew
}

void take_rows(const Rows& rows, std::span<const std::int64_t> indices, std::byte* out, std::size_t swapped) {
    // Comparing the places of rows one by one takes longer than copying small ones.
    if (const std::size_t count = indices.size(); swapped == 0 && count > 1 && is_run(indices)) {
        const auto first = static_cast<std::uint64_t>(indices.front());
        const std::size_t bytes = count * rows.size;
        if (first < rows.count && count <= rows.count - first) {
            if (bytes != 0) std::memcpy(out, rows.bytes.data() + first * rows.size, bytes);
            return;
        }
    }
    // Copied, because a caller's array may change between the check and the use.
    const std::vector<std::int64_t> kept(indices.begin(), indices.end());
    check_range(rows, kept);
    const auto from = [&](std::size_t i) { return rows.bytes.data() + static_cast<std::size_t>(kept[i]) * rows.size; };
    copy_swapped(indices.size(), rows.size, from, out, swapped);
}

Rows VaryingRows::row(std::int64_t index, std::size_t record) const {
    const auto i = static_cast<std::uint64_t>(index);
    if (offsets.empty() || i >= offsets.size() - 1) throw out_of_range(i, offsets.size(), record);
    // Copied, because a caller's array may change between the check and the use.
    const auto begin = static_cast<std::uint64_t>(offsets[i]), end = static_cast<std::uint64_t>(offsets[i + 1]);
    if (begin > end || end > elements.count) throw out_of_range(end, elements.count, record);
    const std::size_t count = end - begin, size = elements.size;
    return {elements.bytes.subspan(begin * size, count * size), size, count};
}

void pad_rows(const VaryingRows& rows, std::size_t length, Bytes fill, std::byte* out) {
    const std::size_t size = length * rows.elements.size;
    const bool is_zero = std::ranges::all_of(fill, [](std::byte byte) { return byte == std::byte{0}; });
    for (std::size_t i = 0; i + 1 < rows.offsets.size(); ++i, out += size) {
        const Bytes row = rows.row(static_cast<std::int64_t>(i), i).bytes;
        const std::size_t held = std::min(row.size(), size), left = size - held;
        std::byte* const rest = out + held;
        if (held != 0) std::memcpy(out, row.data(), held);
        if (left == 0) continue;
        if (is_zero) {
            std::memset(rest, 0, left);
            continue;
        }
        std::memcpy(rest, fill.data(), fill.size());
        for (std::size_t done = fill.size(); done < left; done += std::min(done, left - done))
            std::memcpy(rest + done, rest, std::min(done, left - done));
    }
}

void take_varying_rows(std::span<const VaryingRows> parts, const std::int32_t* which,
                       std::span<const std::int64_t> indices, std::span<const std::size_t> ends, std::byte* out) {
    const auto row_of = [&](std::size_t i) -> Bytes {
        if (i == indices.size()) return {};
        const auto part = static_cast<std::uint32_t>(which != nullptr ? which[i] : 0);
        if (part >= parts.size()) throw out_of_range(part, parts.size(), i);
        return parts[part].row(indices[i], i).bytes;
    };
    std::size_t at = 0;
    Bytes next = row_of(0);
    for (std::size_t i = 0; i < indices.size(); ++i) {
        const Bytes row = next;
        next = row_of(i + 1);
        prefetch_lines(next.first(std::min(next.size(), most_prefetched)));
        if (row.size() != ends[i] - at) throw out_of_range(row.size(), ends[i] - at, i);
        if (!row.empty()) std::memcpy(out + at, row.data(), row.size());
        at = ends[i];
    }
}

void take_ranges(std::span<const Bytes> files, const std::int32_t* which, std::span<const std::int64_t> offsets,
                 std::size_t size, std::byte* out, std::size_t swapped) {
    check_places(files, which, offsets, size);
    const auto from = [&](std::size_t i) {
        const Bytes file = files[which != nullptr ? static_cast<std::size_t>(which[i]) : 0];
        return file.data() + offsets[i];
    };
    copy_swapped(offsets.size(), size, from, out, swapped);
}

// Parts are often of about the same size, so look where the position would be then. Halving takes ten times as long.
void find_parts(std::span<const std::int64_t> firsts, std::span<const std::int64_t> positions,
                std::int32_t* out) noexcept {
    constexpr std::size_t most_steps = 4;
    if (firsts.size() < 2) {
        for (std::size_t i = 0; i < positions.size(); ++i) out[i] = firsts.empty() || positions[i] < firsts[0] ? -1 : 0;
        return;
    }
    const std::size_t parts = firsts.size() - 1;
    const double scale = static_cast<double>(parts) / static_cast<double>(std::max<std::int64_t>(firsts[parts], 1));
    // One comparison, because the processor mispredicts which of two fails where positions are random.
    const auto is_in = [firsts](std::size_t number, std::int64_t position) {
        const auto first = static_cast<std::uint64_t>(firsts[number]);
        return static_cast<std::uint64_t>(position) - first < static_cast<std::uint64_t>(firsts[number + 1]) - first;
    };
    std::size_t part = 0; // of the position before
    for (std::size_t i = 0; i < positions.size(); ++i) {
        const std::int64_t position = positions[i];
        if (!is_in(part, position)) {
            if (position < firsts[0] || position >= firsts[parts]) {
                out[i] = position < firsts[0] ? -1 : static_cast<std::int32_t>(parts);
                continue;
            }
            part = std::min(static_cast<std::size_t>(std::max(static_cast<double>(position) * scale, 0.0)), parts - 1);
            std::size_t steps = 0;
            for (; steps < most_steps && position < firsts[part]; ++steps) --part;
            for (; steps < most_steps && position >= firsts[part + 1]; ++steps) ++part;
            if (!is_in(part, position))
                part = static_cast<std::size_t>(std::ranges::upper_bound(firsts, position) - firsts.begin()) - 1;
        }
        out[i] = static_cast<std::int32_t>(part);
    }
}

} // namespace headrace

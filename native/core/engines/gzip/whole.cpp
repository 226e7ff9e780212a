#include "core/engines/gzip/whole.hpp"

#include <algorithm>
#include <utility>

#include "core/base/cpu.hpp"
#include "core/checksum/crc32.hpp"

namespace headrace::deflate {
namespace {

constexpr std::size_t header_bytes = 10, trailer_bytes = 8;
constexpr std::uint32_t header_of_members = 0x00088B1F; // the magic bytes, Deflate, no flags
constexpr unsigned looks = 4; // lookups of literals between two loads: of 11 bits each, and one more to look ahead
constexpr std::size_t longest_match = 258;
constexpr std::size_t copy_step = 16;
// What a turn of `run_quickly` reads and writes at most: two loads of a word, the second one up to 7 bytes on;
// literals, two at a time, and a match, whose last step may write too much.
constexpr std::size_t quick_input = 16, quick_output = std::size_t{2} * looks + longest_match + copy_step;

constexpr unsigned low_bits(std::uint64_t bits, unsigned count) noexcept {
    return static_cast<unsigned>(bits & ((std::uint64_t{1} << count) - 1));
}

// How far back a match reaches: what its symbol stands for, and some more bits.
constexpr unsigned extra_of(unsigned symbol) noexcept { return symbol < 4 ? 0 : symbol / 2 - 1; }
constexpr unsigned distance_of(unsigned symbol) noexcept {
    return 1 + (symbol < 4 ? symbol : (2 + (symbol & 1)) << extra_of(symbol));
}

// Copies a match. May write up to `copy_step` bytes too many, which later bytes replace.
HEADRACE_INLINE void copy_match(std::byte* to, std::size_t distance, std::size_t size) noexcept {
    const std::byte* const from = to - distance;
    if (distance >= copy_step) {
        for (std::size_t i = 0; i < size; i += copy_step) {
            std::array<std::byte, copy_step> some;
            std::memcpy(some.data(), from + i, copy_step);
            std::memcpy(to + i, some.data(), copy_step);
        }
        return;
    }
    if (distance == 1) {
        std::memset(to, std::to_integer<int>(*from), size);
        return;
    }
    // The first bytes one by one, until a word of them is known. Then some repeats of the pattern are the distance.
    const std::size_t known = distance >= 8 ? 0 : std::min<std::size_t>(size, 8);
    for (std::size_t i = 0; i < known; ++i) to[i] = from[i];
    const std::size_t far = distance >= 8 ? distance : distance * ((8 + distance - 1) / distance);
    for (std::size_t i = known; i < size; i += 8) {
        const auto word = load_le<std::uint64_t>(to + i - far);
        store_le(to + i, word);
    }
}

} // namespace

WholeInflater::Step WholeInflater::run_quickly() noexcept {
    if (stream_.size() < quick_input || out_.size() < quick_output) return Step::more;
    const std::byte* const last_from = stream_.data() + stream_.size() - quick_input;
    std::byte* const last_to = out_.data() + out_.size() - quick_output;
    const std::byte* from = stream_.data() + (at_ >> 3);
    std::byte* to = out_.data() + size_;
    if (from > last_from || to > last_to) return Step::more;
    auto bits = load_le<std::uint64_t>(from) >> (at_ & 7);
    from += 7;
    auto ready = static_cast<unsigned>(56 - (at_ & 7));
    const auto fill = [&] { // to at least 56 bits
        bits |= load_le<std::uint64_t>(from) << ready;
        from += (63 - ready) >> 3;
        ready |= 56;
    };
    const auto drop = [&](unsigned count) {
        bits >>= count;
        ready -= count;
    };
    const auto stop = [&](Step found) {
        at_ = static_cast<std::uint64_t>(from - stream_.data()) * 8 - ready;
        size_ = static_cast<std::size_t>(to - out_.data());
        return found;
    };
    while (from <= last_from && to <= last_to) {
        fill();
        Entry entry = codes_.literals[bits & (codes_.literals.size() - 1)];
        for (unsigned look = 0; look < looks && (entry & other_flag) == 0; ++look) {
            store_le(to, static_cast<std::uint16_t>(entry >> 16));
            to += static_cast<std::uint8_t>(entry >> 8);
            drop(entry & 63);
            entry = codes_.literals[bits & (codes_.literals.size() - 1)];
        }
        if ((entry & other_flag) == 0) continue;
        fill(); // A length and a distance take at most 48 bits.
        Symbol found{entry >> 16 & 0x1FF, entry >> 25};
        if (found.bits == 0) {
            found = codes_.long_literals.find(bits);
            if (found.bits == 0) return stop(Step::wrong);
        }
        drop(found.bits);
        if (found.value < end_of_block) {
            *to++ = static_cast<std::byte>(found.value);
            continue;
        }
        if (found.value == end_of_block) return stop(Step::end);
        const unsigned symbol = found.value - end_of_block - 1;
        if (symbol >= length_base.size()) return stop(Step::wrong);
        const std::size_t length = length_base[symbol] + low_bits(bits, length_extra[symbol]);
        drop(length_extra[symbol]);
        const Symbol far = codes_.distance(bits);
        if (far.bits == 0 || far.value > 29) return stop(Step::wrong);
        drop(far.bits);
        const std::size_t distance = distance_of(far.value) + low_bits(bits, extra_of(far.value));
        drop(extra_of(far.value));
        if (std::cmp_greater(distance, to - out_.data())) return stop(Step::wrong);
        copy_match(to, distance, length);
        to += length;
    }
    return stop(Step::more);
}

// Decodes one symbol, also near the end of the input or the output.
WholeInflater::Step WholeInflater::step() noexcept {
    std::uint64_t bits = bits_at(stream_, at_);
    const auto drop = [&](unsigned count) {
        bits >>= count;
        at_ += count;
    };
    const auto is_beyond = [&] { return at_ > std::uint64_t{stream_.size()} * 8; };
    const Symbol found = codes_.long_literals.find(bits);
    if (found.bits == 0) return Step::wrong;
    drop(found.bits);
    if (found.value <= end_of_block) {
        if (is_beyond()) return Step::wrong;
        if (found.value == end_of_block) return Step::end;
        if (room() == 0) return Step::wrong;
        out_[size_++] = static_cast<std::byte>(found.value);
        return Step::more;
    }
    const unsigned symbol = found.value - end_of_block - 1;
    if (symbol >= length_base.size()) return Step::wrong;
    const std::size_t length = length_base[symbol] + low_bits(bits, length_extra[symbol]);
    drop(length_extra[symbol]);
    const Symbol far = codes_.distance(bits);
    if (far.bits == 0 || far.value > 29) return Step::wrong;
    drop(far.bits);
    const std::size_t distance = distance_of(far.value) + low_bits(bits, extra_of(far.value));
    drop(extra_of(far.value));
    if (is_beyond() || distance > size_ || length > room()) return Step::wrong;
    for (const std::size_t end = size_ + length; size_ < end; ++size_) out_[size_] = out_[size_ - distance];
    return Step::more;
}

bool WholeInflater::copy_stored() noexcept {
    const auto from = static_cast<std::size_t>((at_ + 7) >> 3);
    if (stream_.size() < 4 || from > stream_.size() - 4) return false;
    const auto length = load_le<std::uint16_t>(stream_.data() + from);
    const auto check = load_le<std::uint16_t>(stream_.data() + from + 2);
    if ((length ^ check) != 0xFFFF || length > stream_.size() - 4 - from || length > room()) return false;
    if (length != 0) std::memcpy(out_.data() + size_, stream_.data() + from + 4, length);
    size_ += length;
    at_ = std::uint64_t{from + 4 + length} * 8;
    return true;
}

bool WholeInflater::inflate_block() noexcept {
    if (at_ + 3 > std::uint64_t{stream_.size()} * 8) return false;
    const std::uint64_t bits = bits_at(stream_, at_);
    is_last_ = (bits & 1) != 0;
    at_ += 3;
    switch (bits >> 1 & 3) {
    case 0: return copy_stored();
    case 1: codes_.fix(); break;
    case 2:
        if (!codes_.read(stream_, at_)) return false;
        break;
    default: return false;
    }
    for (;;) {
        Step found = run_quickly();
        if (found == Step::more) found = step();
        if (found != Step::more) return found == Step::end;
    }
}

bool WholeInflater::inflate(Bytes member, std::span<std::byte> out) noexcept {
    if (member.size() < header_bytes + trailer_bytes || load_le<std::uint32_t>(member.data()) != header_of_members)
        return false;
    stream_ = member.first(member.size() - trailer_bytes);
    at_ = std::uint64_t{header_bytes} * 8;
    out_ = out;
    size_ = 0;
    is_last_ = false;
    while (!is_last_)
        if (!inflate_block()) return false;
    const std::byte* const trailer = member.data() + stream_.size();
    return room() == 0 && (at_ + 7) / 8 == stream_.size() && load_le<std::uint32_t>(trailer) == crc32(out) &&
           load_le<std::uint32_t>(trailer + 4) == static_cast<std::uint32_t>(out.size());
}

} // namespace headrace::deflate

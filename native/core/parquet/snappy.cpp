#include "core/parquet/snappy.hpp"

#include <array>
#include <cstring>

#include "core/base/cpu.hpp"

namespace headrace::parquet {
namespace {

enum class Kind : std::uint8_t { literal, near_copy, copy, far_copy };

constexpr std::size_t longest_copy = 64;
constexpr std::size_t longest_inline_literal = 60; // longer ones have their size in 1 to 4 bytes of their own
constexpr std::size_t step = 16;                   // bytes copied at once
// What `decode_quickly` may read and write for an element without another check: a tag and 16 bytes, and 64 bytes, the
// last of them by a store of up to 16.
constexpr std::ptrdiff_t quick_input = 1 + step;
constexpr std::ptrdiff_t quick_output = longest_copy + step;

// What a tag says of a copy: its size in the low byte, the upper bits of its offset in the next three, and how many
// bytes of the offset follow.
constexpr std::array<std::uint16_t, 256> make_copies() {
    std::array<std::uint16_t, 256> copies{};
    for (unsigned tag = 0; tag < copies.size(); ++tag) {
        const auto kind = static_cast<Kind>(tag & 3);
        const unsigned size = kind == Kind::near_copy ? 4 + (tag >> 2 & 7) : 1 + (tag >> 2);
        const unsigned offset = kind == Kind::near_copy ? tag >> 5 << 8 : 0;
        const unsigned follow = kind == Kind::near_copy ? 1 : kind == Kind::copy ? 2 : 4;
        copies[tag] = static_cast<std::uint16_t>(size | offset | follow << 11);
    }
    return copies;
}

constexpr std::array<std::uint16_t, 256> copies = make_copies();
constexpr std::array<std::uint32_t, 5> masks = {0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF}; // the low 0 to 4 bytes

// A pattern of 1 to 7 bytes, repeated in a word: masked, then multiplied.
constexpr std::array<std::uint64_t, 8> make_repeats() {
    std::array<std::uint64_t, 8> repeats{};
    for (unsigned size = 1; size < repeats.size(); ++size)
        for (unsigned at = 0; at < 8; at += size) repeats[size] |= std::uint64_t{1} << (8 * at);
    return repeats;
}

constexpr std::array<std::uint64_t, 8> repeats = make_repeats();
constexpr std::array<std::uint8_t, 8> whole_repeats = {0, 8, 8, 6, 8, 5, 6, 7}; // bytes of a word in whole patterns

std::size_t bytes_between(const std::byte* from, const std::byte* to) noexcept {
    return static_cast<std::size_t>(to - from);
}

HEADRACE_INLINE void copy_step(std::byte* to, const std::byte* from) noexcept {
    std::array<std::byte, step> bytes;
    std::memcpy(bytes.data(), from, step);
    std::memcpy(to, bytes.data(), step);
}

// Copies up to 64 bytes, which begin `offset` before `to`. Writes up to `quick_output` bytes, whatever the size: stores
// are cheaper than branches that are hard to predict.
HEADRACE_INLINE void copy_quickly(std::byte* to, std::size_t offset, std::size_t size) noexcept {
    const std::byte* from = to - offset;
    if (size <= step && offset >= 8) [[likely]] {
        store_le(to, load_le<std::uint64_t>(from));
        store_le(to + 8, load_le<std::uint64_t>(from + 8));
    } else if (offset >= step) {
        for (std::size_t i = 0; i < longest_copy; i += step) copy_step(to + i, from + i);
    } else if (offset >= 8) {
        for (std::size_t i = 0; i < size; i += 8) store_le(to + i, load_le<std::uint64_t>(from + i));
    } else {
        const std::uint64_t mask = (std::uint64_t{1} << (8 * offset)) - 1;
        const std::uint64_t word = (load_le<std::uint64_t>(from) & mask) * repeats[offset];
        for (std::size_t i = 0; i < size; i += whole_repeats[offset]) store_le(to + i, word);
    }
}

class Decoder {
  public:
    Decoder(Bytes block, std::span<std::byte> target) noexcept
        : in_(block.data()),
          in_end_(block.data() + block.size()),
          begin_(target.data()),
          out_(target.data()),
          out_end_(target.data() + target.size()) {}

    bool decode() noexcept {
        if (!read_size()) return false;
        while (in_ != in_end_)
            if (!decode_quickly() || (in_ != in_end_ && !decode_one())) return false;
        return out_ == out_end_;
    }

  private:
    // The size in front of the block must be that of the target.
    bool read_size() noexcept {
        std::uint64_t size = 0;
        for (unsigned shift = 0; shift < 32; shift += 7) {
            if (in_ == in_end_) return false;
            const auto byte = std::to_integer<std::uint64_t>(*in_++);
            size |= (byte & 0x7F) << shift;
            if (byte < 0x80) return size <= 0xFFFFFFFF && size == bytes_between(out_, out_end_);
        }
        return false;
    }

    // Decodes elements while there is room around them. False if one is wrong.
    bool decode_quickly() noexcept {
        const std::byte* in = in_;
        std::byte* out = out_;
        while (in_end_ - in >= quick_input && out_end_ - out >= quick_output) {
            const auto tag = std::to_integer<unsigned>(*in++);
            if (static_cast<Kind>(tag & 3) == Kind::literal) {
                std::size_t size = (tag >> 2) + 1;
                if (size <= step) [[likely]] {
                    copy_step(out, in);
                } else {
                    if (size > longest_inline_literal) {
                        const std::size_t follow = size - longest_inline_literal;
                        size = std::size_t{load_le<std::uint32_t>(in) & masks[follow]} + 1;
                        in += follow;
                    }
                    if (!copy_literal(out, in, size)) return false;
                }
                in += size;
                out += size;
                continue;
            }
            // The position of the next tag depends on this, so it is not looked up in a table.
            unsigned follow = tag & 3;
            std::size_t offset = std::size_t{load_le<std::uint32_t>(in) & masks[follow]} + (copies[tag] & 0x700);
            if (static_cast<Kind>(tag & 3) == Kind::far_copy) [[unlikely]] {
                follow = 4;
                offset = load_le<std::uint32_t>(in);
            }
            const std::size_t size = copies[tag] & 0xFF;
            if (offset - 1 >= bytes_between(begin_, out)) return false; // 0 as well
            copy_quickly(out, offset, size);
            in += follow;
            out += size;
        }
        in_ = in;
        out_ = out;
        return true;
    }

    HEADRACE_INLINE bool copy_literal(std::byte* out, const std::byte* in, std::size_t size) const noexcept {
        const auto in_left = bytes_between(in, in_end_);
        const auto out_left = bytes_between(out, out_end_);
        if (size <= longest_copy && in_left >= longest_copy) { // `quick_output` bytes of the output are left
            for (std::size_t i = 0; i < size; i += step) copy_step(out + i, in + i);
            return true;
        }
        if (size > in_left || size > out_left) return false;
        std::memcpy(out, in, size);
        return true;
    }

    // Decodes one element, at the end of the input or the output. False if it is wrong.
    bool decode_one() noexcept {
        const auto tag = std::to_integer<unsigned>(*in_++);
        const bool literal = static_cast<Kind>(tag & 3) == Kind::literal;
        const unsigned copy = copies[tag];
        std::size_t size = literal ? (tag >> 2) + 1 : copy & 0xFF;
        std::size_t follow = copy >> 11;
        if (literal) follow = size > longest_inline_literal ? size - longest_inline_literal : 0;
        if (follow > bytes_between(in_, in_end_)) return false;
        std::size_t number = 0;
        for (std::size_t i = 0; i < follow; ++i) number |= std::to_integer<std::size_t>(*in_++) << (8 * i);
        if (literal && follow != 0) size = number + 1;
        if (size > bytes_between(out_, out_end_)) return false;
        if (literal) {
            if (size > bytes_between(in_, in_end_)) return false;
            std::memcpy(out_, in_, size);
            in_ += size;
        } else {
            const std::size_t offset = number + (copy & 0x700);
            if (offset - 1 >= bytes_between(begin_, out_)) return false;
            for (std::size_t i = 0; i < size; ++i) out_[i] = *(out_ + i - offset);
        }
        out_ += size;
        return true;
    }

    const std::byte* in_;
    const std::byte* in_end_;
    const std::byte* begin_;
    std::byte* out_;
    std::byte* out_end_;
};

} // namespace

bool decompress_snappy(Bytes block, std::span<std::byte> target) noexcept { return Decoder(block, target).decode(); }

} // namespace headrace::parquet

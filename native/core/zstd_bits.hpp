#pragma once

#include "core/cursor.hpp"

namespace headrace::zstd {

/// How many bytes before a stream must be readable: whole words are loaded, also where only their last bytes belong to it.
inline constexpr std::ptrdiff_t readable_before = 8;

/// Bits that were written forwards and are read backwards, from the last one set in the last byte. Source: RFC 8878, section 4.1.
/// What is read beyond the beginning is whatever lies before it: `left` tells.
class BackwardBits {
  public:
    /// False where there is no stream: it is empty, or its last byte is.
    [[nodiscard]] bool open(Bytes stream) noexcept {
        if (stream.empty() || stream.back() == std::byte{0}) return false;
        begin_ = stream.data();
        at_ = stream.data() + stream.size() - sizeof word_;
        word_ = load_le<std::uint64_t>(at_);
        used_ = static_cast<unsigned>(std::countl_zero(std::to_integer<std::uint8_t>(stream.back()))) + 1;
        return refill();
    }

    /// The next `count` bits; 0 for none. At most 56 may be taken between two calls of `refill`.
    [[nodiscard]] std::uint64_t take(unsigned count) noexcept {
        const std::uint64_t bits = word_ << used_ >> 1 >> (63 - count);
        used_ += count;
        return bits;
    }

    /// Makes 56 bits ready. False, with nothing changed but that the rest is gone, where more was taken than there was.
    bool refill() noexcept {
        at_ -= used_ >> 3;
        used_ &= 7;
        if (at_ - begin_ < -readable_before) {
            at_ = begin_ - readable_before;
            used_ = 8; // whatever comes, it is too much
            return false;
        }
        word_ = load_le<std::uint64_t>(at_);
        return true;
    }

    /// How many bits are left; negative where more were taken than there were.
    [[nodiscard]] std::ptrdiff_t left() const noexcept { return (at_ - begin_ + readable_before) * 8 - static_cast<std::ptrdiff_t>(used_); }

  private:
    const std::byte* begin_ = nullptr;
    const std::byte* at_ = nullptr; // where the word was loaded
    std::uint64_t word_ = 0;
    unsigned used_ = 0; // bits of the word, from its top
};

} // namespace headrace::zstd

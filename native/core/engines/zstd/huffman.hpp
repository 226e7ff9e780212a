#pragma once

#include <array>

#include "core/base/cursor.hpp"

namespace headrace::zstd {

struct Weights;

/// One of several streams of codes.
struct HuffmanStream {
    std::uint64_t bits;  ///< The next ones at its top; the lowest one set marks where they end.
    const std::byte* at; ///< Where they were loaded.
    std::byte* to;       ///< Where the next symbol goes.
    const std::byte* begin;
    const std::byte* end; ///< Of what is to be filled.

    /// False where there is no stream: it is empty, or its last byte is. Eight bytes before it are readable.
    [[nodiscard]] bool open(Bytes stream, std::span<std::byte> target) noexcept;
};

/// The prefix code of a block's literals. Source: RFC 8878, section 4.2.
class HuffmanTable {
  public:
    using Four = std::array<HuffmanStream, 4>;

    /// Reads the description of a code. Returns how many bytes it takes; 0 where it is unsound. Eight bytes before it
    /// are readable.
    [[nodiscard]] std::size_t read(Bytes from) noexcept;

    /// Does that with two, where that is faster than one after the other. `sizes` are what `read` returns.
    static void read_two(HuffmanTable& one, HuffmanTable& other, const std::array<Bytes, 2>& from,
                         std::array<std::size_t, 2>& sizes) noexcept;

    /// Whether there is a code. False after `forget`, and after one that could not be read.
    [[nodiscard]] bool ready() const noexcept { return log_ != 0; }
    void forget() noexcept { log_ = 0; }

    /// Decodes a stream that fills `to` exactly; false where it does not. Eight bytes before it are readable.
    [[nodiscard]] bool decode_one(Bytes stream, std::span<std::byte> to) const noexcept;

    /// Opens the four streams behind the table of their sizes, which fill `to` together. Ten bytes before that are
    /// readable.
    [[nodiscard]] static bool open_four(Bytes streams, std::span<std::byte> to, Four& four) noexcept;

    /// Decodes all that is left of four streams; false where they do not fill exactly what they must.
    [[nodiscard]] bool decode_four(Four& four) const noexcept;

    /// Decodes most of two times four streams by turns. Each step of one waits for the one before it: this way, none
    /// does.
    static void decode_eight(const HuffmanTable& table, Four& four, const HuffmanTable& other_table,
                             Four& other) noexcept;

    static constexpr unsigned most_log = 11; ///< Bits of the longest code.

  private:
    [[nodiscard]] bool build(const Weights& weights) noexcept;

    static constexpr std::size_t slack = 32; // behind what is filled in, eight symbols at a time

    unsigned log_ = 0;
    std::array<std::uint16_t, (std::size_t{1} << most_log) + slack>
        cells_; // By the next bits: symbol << 8 | length of its code.
};

/// What tells how long the code of each symbol is: the greater, the shorter; 0 for symbols that have none. Source: RFC
/// 8878, section 4.2.1.
struct Weights {
    std::array<std::uint8_t, 256> of{};
    std::size_t count =
        0; ///< That of the last symbol is not given: it follows from the others. Behind them there are zeros.
    std::uint16_t present = 0; ///< All weights that come, and maybe others, as bits.
};

/// Reads the description of a code. Returns how many bytes it takes; 0 where it is unsound. Eight bytes before it are
/// readable.
[[nodiscard]] std::size_t read_weights(Bytes from, Weights& weights) noexcept;

/// Does that with two by turns. `sizes` are what `read_weights` returns.
void read_two_weights(const std::array<Bytes, 2>& from, std::array<Weights, 2>& weights,
                      std::array<std::size_t, 2>& sizes) noexcept;

} // namespace headrace::zstd

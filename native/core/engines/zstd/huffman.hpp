#pragma once

#include <array>

#include "core/base/cpu.hpp"
#include "core/base/cursor.hpp"

namespace headrace::zstd {

struct Weights;

/// One of several streams of codes.
struct HuffmanStream {
    std::uint64_t bits;  ///< The next bits from the top down. The lowest set bit marks their end.
    const std::byte* at; ///< Where they were loaded.
    std::byte* to;       ///< Where the next symbol goes.
    const std::byte* begin;
    const std::byte* end; ///< Of the output.

    /// False if there is no stream: it is empty, or its last byte is 0. Eight bytes before it must be readable.
    [[nodiscard]] bool open(Bytes stream, std::span<std::byte> target) noexcept;
};

/// The prefix code of a block's literals. Source: RFC 8878, section 4.2.
class HuffmanTable {
  public:
    using Four = std::array<HuffmanStream, 4>;

    /// Reads the description of a code. Returns its size in bytes, or 0 if it is unsound. Eight bytes before it must be
    /// readable.
    [[nodiscard]] std::size_t read(Bytes from, const Cpu& cpu = this_cpu) noexcept;

    /// `read` for two descriptions, interleaved. `sizes` receives what `read` returns.
    static void read_pair(HuffmanTable& one, HuffmanTable& other, const std::array<Bytes, 2>& from,
                          std::array<std::size_t, 2>& sizes, const Cpu& cpu = this_cpu) noexcept;

    /// Whether there is a code. False after `forget`, and after a description that could not be read.
    [[nodiscard]] bool ready() const noexcept { return log_ != 0; }
    void forget() noexcept { log_ = 0; }

    /// Decodes a stream that must fill `to` exactly. Eight bytes before it must be readable.
    [[nodiscard]] bool decode_one(Bytes stream, std::span<std::byte> to) const noexcept;

    /// Opens the four streams behind the table of their sizes; together they fill `to`. Ten bytes before the table must
    /// be readable.
    [[nodiscard]] static bool open_four(Bytes streams, std::span<std::byte> to, Four& four) noexcept;

    /// Decodes the rest of four streams, which must fill their output exactly.
    [[nodiscard]] bool decode_four(Four& four, const Cpu& cpu = this_cpu) const noexcept;

    /// Decodes most of the four streams of each of two blocks, interleaved. Each symbol of a stream depends on the one
    /// before it; eight streams keep the processor busy during that wait.
    static void decode_eight(const HuffmanTable& table, Four& four, const HuffmanTable& other_table, Four& other,
                             const Cpu& cpu = this_cpu) noexcept;

    static constexpr unsigned most_log = 11; ///< Bits of the longest code.

  private:
    [[nodiscard]] bool build(const Weights& weights) noexcept;

    static constexpr std::size_t slack = 32; // cells are written eight at a time

    unsigned log_ = 0;
    std::array<std::uint16_t, (std::size_t{1} << most_log) + slack>
        cells_; // By the next bits: symbol << 8 | length of its code.
};

/// The weight of each symbol: a greater weight is a shorter code, 0 is no code. Source: RFC 8878, section 4.2.1.
struct Weights {
    std::array<std::uint8_t, 256> of{};
    /// The number of weights that are given. That of the last symbol is not: it follows from the others. Zeros follow.
    std::size_t count = 0;
    std::uint16_t present = 0; ///< A bit for each weight that occurs, and maybe for others.
};

/// Reads the description of a code. Returns its size in bytes, or 0 if it is unsound. Eight bytes before it must be
/// readable.
[[nodiscard]] std::size_t read_weights(Bytes from, Weights& weights, const Cpu& cpu = this_cpu) noexcept;

/// `read_weights` for two descriptions, interleaved. `sizes` receives what `read_weights` returns.
void read_weights_pair(const std::array<Bytes, 2>& from, std::array<Weights, 2>& weights,
                       std::array<std::size_t, 2>& sizes, const Cpu& cpu = this_cpu) noexcept;

} // namespace headrace::zstd

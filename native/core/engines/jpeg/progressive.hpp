#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/engines/jpeg/entropy.hpp"
#include "core/engines/jpeg/header.hpp"

namespace headrace::jpeg {

/// A Huffman code as a small table: scans of a progressive file are short, and each brings its own codes.
class ScanTable {
  public:
    /// The next code: 6 bits for its length with the magnitude behind it, 5 bits from bit 8 on for its own length, and
    /// its symbol from bit 16 on. 0 if there is none.
    [[nodiscard]] HEADRACE_INLINE std::uint32_t next(std::uint64_t bits) const noexcept {
        const std::uint32_t entry = entries_[bits >> (64 - table_bits)];
        return entry != 0 ? entry : longer(bits);
    }

    void build(const Codes& codes) noexcept;

  private:
    static constexpr unsigned table_bits = 9;
    [[nodiscard]] std::uint32_t longer(std::uint64_t bits) const noexcept;

    std::array<std::uint32_t, std::size_t{1} << table_bits> entries_;
    std::array<std::uint32_t, 17> limits_; ///< By length: the first 16 bits beyond all codes of up to that length.
    std::array<std::int32_t, 17> offsets_; ///< By length: added to a code, it gives the place of its symbol.
    std::array<std::uint8_t, 256> symbols_;
};

/// The coefficients of one plane of an image.
struct CoefficientPlane {
    struct alignas(64) Numbers : std::array<std::int16_t, 64> {};
    std::vector<Numbers> blocks; ///< In rows.
    std::vector<std::uint64_t>
        places;             ///< For each block, the places in the zigzag with a coefficient, uppermost first.
    std::size_t stride = 0; ///< Blocks of a row, up to a whole unit.
    std::size_t across = 0; ///< Blocks of a row that the image has.
    std::size_t down = 0;

    [[nodiscard]] std::int16_t* block(std::size_t number) noexcept { return blocks[number].data(); }
};

/// All coefficients of a progressive file, which come in many scans: first their upper bits, then bit by bit the rest.
/// Keeps its memory for the next image.
class ProgressiveReader {
  public:
    explicit ProgressiveReader(const Cpu& cpu) : cpu_(cpu) {}

    /// Reads all scans. False if one is not sound to its last bit, or if one bit of a coefficient is missing: the
    /// library smooths such images.
    [[nodiscard]] bool read(Bytes file, const Header& first);

    [[nodiscard]] CoefficientPlane& plane(std::size_t number) noexcept { return planes_[number]; }

    /// Frees the memory of a large image.
    void shrink() noexcept;

  private:
    void prepare(const Header& header);
    [[nodiscard]] bool follows(const Scan& scan) noexcept;
    [[nodiscard]] bool is_complete(std::size_t channels) const noexcept;
    [[nodiscard]] bool read_scan(const Header& header);
    [[nodiscard]] bool read_means(const Header& header);
    [[nodiscard]] bool refine_means(const Header& header);
    template <class Begin, class Read>
    [[nodiscard]] bool each_mean(const Header& header, const Begin& begin, const Read& read);

    Cpu cpu_;
    std::array<CoefficientPlane, 3> planes_;
    std::array<std::array<std::int8_t, 64>, 3> lows_{}; ///< The lowest bit of each coefficient so far; -1: none yet.
    std::array<ScanTable, 4> tables_;
    Stretches stretches_;
    std::size_t units_across_ = 0, units_down_ = 0;
};

} // namespace headrace::jpeg

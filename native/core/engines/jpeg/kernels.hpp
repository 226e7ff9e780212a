#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/cpu.hpp"

namespace headrace::jpeg {

/// One block, as the inverse DCT reads and writes it.
struct Block {
    const std::int16_t* coefficients; ///< 64 in rows, 32-byte aligned.
    const std::uint16_t* steps;       ///< What to multiply them by, in rows, 32-byte aligned.
    std::uint8_t* out;                ///< Its upper left sample.
    std::size_t stride;               ///< Samples from one row to the next.
};

using FourBlocks = std::array<const Block*, 4>;

/// Those in the first four rows and columns.
inline constexpr unsigned low_coefficients = 10;

/// Functions that turn coefficients into pixels. They may read rows of chroma one sample before and 32 behind, where
/// the caller repeats the first and the last one.
struct Kernels {
    /// The inverse DCT of two blocks, accurate, as libjpeg's "slow" integer one to the bit.
    void (*transform)(const Block& first, const Block& second);
    /// The same of four.
    void (*transform_four)(const FourBlocks& blocks);
    /// The same of four that have nothing but the first `low_coefficients` of the zigzag order.
    void (*transform_low)(const FourBlocks& blocks);
    /// The same for a block of only a mean: 8 x 8 samples of one value.
    void (*flat)(const Block& block);
    /// Twice as many columns from one row of `columns`, by triangle filter.
    void (*widen)(const std::uint8_t* row, std::size_t columns, std::uint8_t* out);
    /// The same from two rows, the nearer and the farther one.
    void (*widen_two)(const std::uint8_t* near, const std::uint8_t* far, std::size_t columns, std::uint8_t* out);
    /// RGB from YCbCr.
    void (*colours)(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, std::size_t columns,
                    std::uint8_t* rgb);
    /// What they need of a processor. Codes may be read with it, too.
    Cpu cpu;
};

/// Kernels for every machine. They define the result; the others compute the same bits faster.
[[nodiscard]] const Kernels& plain_kernels() noexcept;

/// These kernels, with those of them that are faster by AVX-512 replaced.
[[nodiscard]] Kernels with_avx512(Kernels kernels) noexcept;

/// Kernels for a processor with AVX2 and BMI2, or AVX-512 as well; null for every other one.
[[nodiscard]] const Kernels* vector_kernels(const Cpu& cpu = this_cpu) noexcept;

} // namespace headrace::jpeg

#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/cpu.hpp"
#include "core/csv/cells/around.hpp"
#include "core/csv/grid.hpp"

namespace headrace::csv {

/// What the plain values of a column look like.
struct CellCounts {
    std::uint64_t empty = 0;
    std::uint64_t missing = 0; ///< Words that mark a missing value.
    std::uint64_t whole = 0;   ///< Integers that fit in int64.
    std::uint64_t real = 0;    ///< Numbers with a decimal mark or an exponent.
    std::uint64_t boolean = 0;
    std::uint64_t negative = 0; ///< Of the integers, those with a minus sign.
    std::uint64_t wide = 0;     ///< Of the integers, those that float64 cannot represent.
};

/// Counts the empty cells and plain numbers of rows from `first` on. Returns the first row whose value is of another
/// form, or too near the end of the file (an empty one never is); the number of rows at the end. What is counted is
/// what facts_of would find, and none of it is padded. `around` remembers what is taken away from values; unset:
/// nothing is.
[[nodiscard]] std::size_t count_numbers(const GridColumn& column, std::size_t first, std::size_t rows, char decimal,
                                        CellCounts& counts, Around* around = nullptr,
                                        const Cpu& cpu = this_cpu) noexcept;

/// The same for truth values.
[[nodiscard]] std::size_t count_truths(const GridColumn& column, std::size_t first, std::size_t rows,
                                       CellCounts& counts, const Cpu& cpu = this_cpu) noexcept;

} // namespace headrace::csv

#pragma once

#include <cstdint>
#include <optional>

#include "core/base/cpu.hpp"
#include "core/csv/grid.hpp"
#include "core/csv/value.hpp"

/// The values of a column of a grid, read by one loop. Each function has a version for processors with AVX-512 VBMI,
/// which reads a value of any length at once, and one for all others.
namespace headrace::csv {

/// How the numbers of a column are read.
struct NumberForm {
    Kind kind = Kind::int64; ///< Not text.
    char decimal = '.';
    std::optional<std::uint64_t> empty{}; ///< The bits of an empty cell; unset if that is not plain.
};

/// Reads the plain numbers or truth values of rows from `first` on and writes them to `to`, where that of `first` goes.
/// Returns the first row whose value is of another form, or too near the end of the file; the number of rows at the
/// end. A value that is read is what read_number or truth_of would give.
[[nodiscard]] std::size_t read_cells(const GridColumn& column, std::size_t first, std::size_t rows,
                                     const NumberForm& form, std::byte* to, const Cpu& cpu = this_cpu) noexcept;

/// Writes the texts of all rows to `to`, one after another, without their quotes, and where each ends to `ends`,
/// counted from `size` bytes before `to`. Takes at most as many bytes as the fields do; `spare_bytes` more are
/// writable. Returns the end.
[[nodiscard]] std::byte* copy_cells(const GridColumn& column, std::size_t rows, std::optional<char> quote,
                                    std::byte* to, std::int64_t* ends, std::size_t size,
                                    const Cpu& cpu = this_cpu) noexcept;
inline constexpr std::size_t spare_bytes = 64;

} // namespace headrace::csv

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/base/cpu.hpp"
#include "core/csv/cells/around.hpp"
#include "core/csv/grid.hpp"
#include "core/csv/value.hpp"

namespace headrace::csv {

/// How the numbers of a column are read.
struct NumberForm {
    Kind kind = Kind::int64; ///< Not text.
    char decimal = '.';
    std::optional<std::uint64_t> empty{}; ///< The bits of an empty cell; unset if that is not plain.
    Around* around = nullptr;             ///< Remembers what is to be taken away from values; unset: nothing is.
};

/// Reads the plain numbers or truth values of rows from `first` on and writes them to `to`, where that of `first` goes.
/// Returns the first row whose value is of another form, or too near the end of the file; the number of rows at the
/// end. A value that is read is what read_number or truth_of would give, for those with something around them what
/// number_in would.
[[nodiscard]] std::size_t read_cells(const GridColumn& column, std::size_t first, std::size_t rows,
                                     const NumberForm& form, std::byte* to, const Cpu& cpu = this_cpu) noexcept;

} // namespace headrace::csv

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/base/cpu.hpp"
#include "core/csv/grid.hpp"

namespace headrace::csv {

/// Writes the texts of all rows to `to`, one after another, without their quotes, and where each ends to `ends`,
/// counted from `size` bytes before `to`. Takes at most as many bytes as the fields do; `spare_bytes` more are
/// writable. Returns the end.
[[nodiscard]] std::byte* copy_cells(const GridColumn& column, std::size_t rows, std::optional<char> quote,
                                    std::byte* to, std::int64_t* ends, std::size_t size,
                                    const Cpu& cpu = this_cpu) noexcept;
inline constexpr std::size_t spare_bytes = 64;

} // namespace headrace::csv

#pragma once

#include "core/base/cpu.hpp"
#include "core/base/spans.hpp"

/// Lines of text, each ended by a line feed or the end of the file. Lines of blanks (space, tab, CR) do not count.
namespace headrace::lines {

/// The starts of the lines that begin in [start, stop), and where the next one begins. A line begins at `start`, after
/// a byte order mark if `start` is 0.
[[nodiscard]] Scan scan(Bytes file, std::uint64_t start, std::uint64_t stop, const Cpu& cpu = this_cpu);

/// Where the first line at or after `at` begins; the size of the file if there is none.
[[nodiscard]] std::uint64_t find(Bytes file, std::uint64_t at) noexcept;

} // namespace headrace::lines

#pragma once

#include <cstdint>
#include <vector>

#include "core/fault.hpp"

namespace headrace {

/// What looking for the records of a buffer, one behind the other, has found.
struct Scan {
    std::vector<std::int64_t> starts; ///< Of the sound records, in order.
    std::uint64_t next = 0;           ///< Where the one after them begins.
    bool faulty = false;              ///< Whether `next` is the start of a damaged record; `fault` says how.
    FormatError fault{Fault::truncated, 0};
};

} // namespace headrace

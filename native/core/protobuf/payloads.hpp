#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/cursor.hpp"
#include "core/base/pool.hpp"

namespace headrace::proto {

/// Payloads in one block, with free bytes around each for the frame.
struct Payloads {
    Pool::Block block;
    std::size_t size = 0; ///< Bytes of the block.
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> sizes;

    /// Places the next payload: `head` free bytes, its own, padding to a multiple of `align`, `tail` free bytes.
    void place(std::size_t own, std::size_t head, std::size_t tail, std::size_t align) {
        starts.push_back(static_cast<std::int64_t>(size + head));
        sizes.push_back(static_cast<std::int64_t>(own));
        size += head + (own + align - 1) / align * align + tail;
    }

    /// Calls `write(record, to)` for every payload, once `block` is there. A FormatError gets the number of its record.
    template <typename Write> void write_each(Write&& write) {
        for (std::size_t i = 0; i < starts.size(); ++i) {
            try {
                write(i, block.data() + starts[i]);
            } catch (FormatError& error) {
                error.record = static_cast<std::int64_t>(i);
                throw;
            }
        }
    }
};

} // namespace headrace::proto

#include "core/rows.hpp"

#include <algorithm>

namespace penstock {
namespace {

void check_range(const Rows& rows, std::span<const std::int64_t> indices) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
        const auto index = static_cast<std::uint64_t>(indices[i]); // A negative one becomes too large.
        if (index < rows.count) continue;
        FormatError error(Fault::range, 0, rows.count, index);
        error.record = static_cast<std::int64_t>(i);
        throw error;
    }
}

// The beginning is enough: from there on the processor sees that the row is read in order.
void prefetch(const std::byte* row, std::size_t size) {
#if defined(__GNUC__) || defined(__clang__)
    constexpr std::size_t line = 64;
    constexpr std::size_t most = 16 * line;
    for (std::size_t at = 0; at < std::min(size, most); at += line) __builtin_prefetch(row + at);
#else
    (void)row, (void)size;
#endif
}

} // namespace

void take_rows(const Rows& rows, std::span<const std::int64_t> indices, std::byte* out) {
    check_range(rows, indices);
    if (rows.size == 0) return;
    const auto row_at = [&rows](std::int64_t index) { return rows.bytes.data() + static_cast<std::size_t>(index) * rows.size; };
    // Small rows are copied in less time than memory takes to answer: ask for them several rows ahead.
    const std::size_t ahead = std::clamp<std::size_t>(8192 / rows.size, 1, 16);
    for (std::size_t i = 0; i < indices.size();) {
        std::size_t run = 1;
        while (i + run < indices.size() && indices[i + run] == indices[i] + static_cast<std::int64_t>(run)) ++run;
        if (i + run - 1 + ahead < indices.size()) prefetch(row_at(indices[i + run - 1 + ahead]), rows.size);
        std::memcpy(out, row_at(indices[i]), run * rows.size);
        out += run * rows.size;
        i += run;
    }
}

} // namespace penstock

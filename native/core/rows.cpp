#include "core/rows.hpp"

namespace penstock {
namespace {

void prefetch(const std::byte* row, std::size_t size) {
#if defined(__GNUC__) || defined(__clang__)
    for (std::size_t at = 0; at < size && at < 1024; at += 64) __builtin_prefetch(row + at);
#else
    (void)row, (void)size;
#endif
}

} // namespace

void take_rows(Bytes rows, std::size_t row_size, std::span<const std::int64_t> indices, std::byte* out) {
    if (row_size == 0) return;
    const auto count = static_cast<std::int64_t>(rows.size() / row_size);
    for (std::size_t i = 0; i < indices.size(); ++i) {
        if (indices[i] >= 0 && indices[i] < count) continue;
        FormatError error(Fault::range, 0, static_cast<std::uint64_t>(count), static_cast<std::uint64_t>(indices[i]));
        error.record = static_cast<std::int64_t>(i);
        throw error;
    }
    for (std::size_t i = 0; i < indices.size();) {
        std::size_t run = 1;
        while (i + run < indices.size() && indices[i + run] == indices[i] + static_cast<std::int64_t>(run)) ++run;
        if (i + run < indices.size()) prefetch(rows.data() + static_cast<std::size_t>(indices[i + run]) * row_size, row_size);
        std::memcpy(out, rows.data() + static_cast<std::size_t>(indices[i]) * row_size, run * row_size);
        out += run * row_size;
        i += run;
    }
}

} // namespace penstock

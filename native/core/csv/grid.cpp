#include "core/csv/grid.hpp"

#include <algorithm>
#include <array>

#include "core/text/marks.hpp"

namespace headrace::csv {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 20;  // of rows that are longer
constexpr std::size_t least_rows = 8;                     // found at once; of fewer, too many are found twice
constexpr std::size_t spare = block_bytes + spare_places; // places that are written besides one for each byte

/// What the blocks before decide about the next one.
struct State {
    std::uint64_t inside = 0;          ///< All bits set: it begins inside quotes.
    std::uint64_t after_separator = 1; ///< 1: it begins a field.
    std::uint64_t after_quote = 0;     ///< 1: a closing quote precedes it.
    std::uint64_t after_line_end = 0;  ///< 1: a line end precedes it.
};

/// The ends of fields and of lines in a block; a line end that follows another one ends nothing. Returns false for a
/// quote that is not where RFC 4180 puts it. `between`: between_marks of the quotes.
bool take_block(std::uint64_t delimiters, std::uint64_t line_ends, std::uint64_t quotes, std::uint64_t between,
                State& state, std::uint64_t& ends, std::uint64_t& lines) noexcept {
    constexpr unsigned top = block_bytes - 1;
    std::uint64_t quoted = state.inside;
    if ((quotes | state.after_quote) != 0) {
        quoted ^= between; // opening quotes included
        const std::uint64_t opening = quotes & quoted, closing = quotes & ~quoted;
        const std::uint64_t outside = (delimiters | line_ends) & ~quoted;
        const std::uint64_t after_closing = closing << 1 | state.after_quote; // a quote opens again: a doubled one
        const std::uint64_t may_open = outside << 1 | state.after_separator | after_closing;
        if (((opening & ~may_open) | (after_closing & ~(outside | opening))) != 0) return false;
        state.inside = quoted >> top != 0 ? ~std::uint64_t{0} : 0;
        state.after_quote = closing >> top;
    }
    lines = line_ends & ~quoted;
    ends = delimiters & ~quoted;
    state.after_separator = (lines | ends) >> top;
    const std::uint64_t again = lines & (lines << 1 | state.after_line_end);
    state.after_line_end = lines >> top;
    lines &= ~again;
    ends |= lines;
    return true;
}

/// How many fields and lines end, and whether there are quotes.
struct Found {
    std::size_t ends = 0, lines = 0;
    bool has_quotes = false;
};

/// Finds where fields end in `size` bytes that begin with a row; nothing if quotes are not where they may be. The last
/// row ends with them if `is_last`; else `size` is a number of whole blocks. `out` has room for a place of each byte.
std::optional<Found> find_ends(const char* text, std::size_t size, bool is_last, const Dialect& dialect,
                               std::uint32_t* out, const Cpu& cpu) noexcept {
    constexpr std::size_t together = 16;
    const Marks marks{'\n', '\r', dialect.quote.value_or('\n'), dialect.delimiter};
    const std::uint64_t has_quotes = dialect.quote ? ~std::uint64_t{0} : 0;
    std::array<MarkMasks, together> masks;
    std::array<std::uint64_t, together> ends, lines, quotes, between{};
    Found found;
    State state;
    std::uint64_t any_quote = 0;
    std::uint32_t* place = out;
    const auto take = [&](const char* from, std::size_t at, std::size_t blocks) {
        find_marks(from, blocks, marks, masks.data(), cpu);
        std::uint64_t any = 0;
        for (std::size_t k = 0; k < blocks; ++k) any |= quotes[k] = masks[k].of[2] & has_quotes;
        if (any != 0) find_between(quotes.data(), blocks, between.data(), cpu);
        any_quote |= any;
        for (std::size_t k = 0; k < blocks; ++k) {
            const auto& of = masks[k].of;
            if (!take_block(of[3], of[0] | of[1], quotes[k], any != 0 ? between[k] : 0, state, ends[k], lines[k]))
                return false;
        }
        found.lines += count_places(lines.data(), blocks, cpu);
        place = put_places(ends.data(), blocks, static_cast<std::uint32_t>(at), place, cpu);
        return true;
    };
    const std::size_t whole = size / block_bytes * block_bytes;
    for (std::size_t at = 0; at != whole;) {
        const std::size_t blocks = std::min(together, (whole - at) / block_bytes);
        if (!take(text + at, at, blocks)) return std::nullopt;
        at += blocks * block_bytes;
    }
    if (is_last) { // Line ends follow: a row that has none ends there, and behind another one they end nothing.
        std::array<char, block_bytes> tail;
        tail.fill('\n');
        std::memcpy(tail.data(), text + whole, size - whole);
        if (!take(tail.data(), whole, 1) || state.inside != 0) return std::nullopt;
    }
    found.ends = static_cast<std::size_t>(place - out);
    found.has_quotes = any_quote != 0;
    return found;
}

bool is_line_end(char byte) noexcept { return byte == '\n' || byte == '\r'; }

} // namespace

FieldGrid::FieldGrid(const Dialect& dialect, std::size_t width, const Cpu& cpu) noexcept
    : dialect_(dialect),
      width_(width),
      cpu_(cpu) {}

std::optional<std::uint64_t> FieldGrid::find(Bytes file, std::uint64_t at, std::uint64_t stop) {
    if (width_ == 0 || at >= stop || stop > file.size()) return std::nullopt;
    text_ = reinterpret_cast<const char*>(file.data()) + at;
    stop_ = reinterpret_cast<const char*>(file.data()) + file.size();
    const std::uint64_t left = stop - at;
    while (true) {
        const bool is_last = left <= wanted_bytes_;
        const auto size = static_cast<std::size_t>(is_last ? left : wanted_bytes_);
        if (is_last && stop != file.size() && !is_line_end(text_[size - 1])) return std::nullopt;
        ends_.make_room(size + spare);
        const std::optional<Found> found = find_ends(text_, size, is_last, dialect_, ends_.data(), cpu_);
        if (!found || !cut_rows(found->ends, found->lines, size)) return std::nullopt;
        has_quotes_ = found->has_quotes;
        if (is_last) return found->ends == rows_ * width_ ? std::optional(stop) : std::nullopt;
        if (rows_ < least_rows) {
            if (wanted_bytes_ < most_bytes) {
                wanted_bytes_ *= 2;
                continue;
            }
            if (rows_ == 0) return std::nullopt;
        }
        std::size_t next = bytes_;
        while (next != left && is_line_end(text_[next])) ++next;
        return at + next;
    }
}

/// Finds where each row begins. Returns false if they are not of the width. The bytes may have changed since the fields
/// were found, so no row may begin behind the end of its first field.
bool FieldGrid::cut_rows(std::size_t count, std::size_t lines, std::size_t size) {
    rows_ = count / width_;
    if (lines != rows_) return false; // Then, if every row ends with a line, all other fields end with a delimiter.
    before_rows_.make_room(rows_ + 1);
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < rows_; ++i) {
        before_rows_[i] = next - 1U;
        const std::uint32_t end = ends_[i * width_ + width_ - 1];
        bytes_ = end;
        if (end >= size) { // The file ends without a line end.
            if (i + 1 != rows_) return false;
            break;
        }
        if (!is_line_end(text_[end])) return false;
        next = end + 1;
        const std::size_t stop = i + 1 != rows_ ? ends_[(i + 1) * width_] : size;
        while (next < stop && is_line_end(text_[next])) ++next;
    }
    return true;
}

} // namespace headrace::csv

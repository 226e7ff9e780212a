#include "core/csv/scan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <utility>

#include "core/text/marks.hpp"
#include "core/text/utf8.hpp"

namespace headrace::csv {
namespace {

using Text = const char*;

Text found_or(Text begin, Text end, char wanted) noexcept {
    const void* const at = begin == end ? nullptr : std::memchr(begin, wanted, static_cast<std::size_t>(end - begin));
    return at == nullptr ? end : static_cast<Text>(at);
}

bool is_line_end(char byte) noexcept { return byte == '\n' || byte == '\r'; }

/// Finds the first CR or LF. Growing windows keep this linear in files that use only one of them, and at memory speed
/// on long lines.
Text line_end(Text at, Text end) noexcept {
    for (std::size_t window = 256; at != end; window *= 2) {
        const Text stop = std::cmp_less(end - at, window) ? end : at + window;
        const Text feed = found_or(at, stop, '\n');
        const Text either = found_or(at, feed, '\r');
        if (either != stop) return either;
        at = stop;
    }
    return end;
}

/// A pass over the fields of a row.
class Walk {
  public:
    Walk(Bytes file, std::uint64_t at, const Dialect& dialect, bool last) noexcept
        : begin_(reinterpret_cast<Text>(file.data())),
          row_(begin_ + at),
          end_(begin_ + file.size()),
          dialect_(dialect),
          last_(last) {}

    /// Calls `on_field(begin, end)` for each field and returns the end of the row.
    template <typename OnField> Row fields(OnField&& on_field) const {
        Text at = row_;
        while (true) {
            const Text stop = at != end_ && dialect_.quote && *at == *dialect_.quote ? quoted(at) : plain(at);
            on_field(at, stop);
            if (stop == end_) return ended(stop);
            if (*stop != dialect_.delimiter) return closed(stop);
            at = stop + 1;
        }
    }

    /// The row whose line end is at `at`.
    [[nodiscard]] Row closed(Text at) const {
        if (at == end_) return ended(at);
        Text next = at + 1;
        if (*at == '\r') {
            if (next == end_ && !last_) fail(Fault::truncated, at); // A line feed may follow.
            if (next != end_ && *next == '\n') ++next;
        }
        return {offset(at), offset(next)};
    }

  private:
    [[noreturn]] void fail(Fault fault, Text at) const { throw FormatError(fault, offset(row_), 0, offset(at)); }
    [[nodiscard]] std::uint64_t offset(Text at) const noexcept { return static_cast<std::uint64_t>(at - begin_); }

    [[nodiscard]] Row ended(Text at) const {
        if (!last_) fail(Fault::truncated, at);
        return {offset(at), offset(at)};
    }

    [[nodiscard]] Text plain(Text at) const noexcept {
        while (at != end_ && *at != dialect_.delimiter && !is_line_end(*at)) ++at;
        return at;
    }

    [[nodiscard]] Text quoted(Text open) const {
        const char quote = *dialect_.quote;
        const auto left = static_cast<std::uint64_t>(end_ - row_);
        const Text limit = left > most_row_bytes ? row_ + most_row_bytes : end_;
        Text at = open + 1;
        while (true) {
            at = at < limit ? found_or(at, limit, quote) : limit;
            if (at == limit) fail(limit == end_ ? Fault::truncated : Fault::range, open);
            ++at;
            if (at == end_) return at;
            if (*at != quote) break;
            ++at;
        }
        if (*at != dialect_.delimiter && !is_line_end(*at)) fail(Fault::structure, at);
        return at;
    }

    Text begin_;
    Text row_;
    Text end_;
    const Dialect& dialect_;
    bool last_;
};

bool has_quote(Text begin, Text end, const Dialect& dialect) noexcept {
    return dialect.quote && found_or(begin, end, *dialect.quote) != end;
}

std::uint64_t width_of(Bytes file, std::uint64_t at, const Row& row, const Dialect& dialect) {
    const Text begin = reinterpret_cast<Text>(file.data()) + at;
    const Text end = reinterpret_cast<Text>(file.data()) + row.end;
    if (!has_quote(begin, end, dialect))
        return 1 + static_cast<std::uint64_t>(std::count(begin, end, dialect.delimiter));
    std::uint64_t count = 0;
    (void)Walk(file.first(row.end), at, dialect, true).fields([&](Text, Text) { ++count; });
    return count;
}

void check(Bytes file, std::uint64_t at, const Row& row, const Dialect& dialect, Checks checks) {
    const Bytes bytes = file.subspan(at, row.end - at);
    if (checks.utf8 && !is_utf8(bytes)) {
        const std::size_t good = utf8_until(bytes);
        if (good != bytes.size()) throw FormatError(Fault::wire, at, 0, at + good);
    }
    if (checks.width == 0) return;
    const std::uint64_t width = width_of(file, at, row, dialect);
    if (width != checks.width) throw FormatError(Fault::wrong_count, at, checks.width, width);
}

/// Finds the end of a row byte by byte. Arguments and faults as for row_at.
Row walk_row(Bytes file, std::uint64_t at, const Dialect& dialect, bool last) {
    if (at > file.size()) throw FormatError(Fault::truncated, at, 1, at);
    const Walk walk(file, at, dialect, last);
    const Text begin = reinterpret_cast<Text>(file.data()) + at;
    const Text end = line_end(begin, reinterpret_cast<Text>(file.data()) + file.size());
    if (!has_quote(begin, end, dialect)) return walk.closed(end);
    return walk.fields([](Text, Text) {});
}

/// Finds the ends of rows 64 bytes at a time; fast for rows that follow each other. What this cannot decide is left to
/// walk_row: quotes that are text, broken quotes, and the last 64 bytes.
class RowFinder {
  public:
    RowFinder(Bytes file, const Dialect& dialect, bool last, const Cpu& cpu) noexcept
        : file_(file),
          dialect_(dialect),
          cpu_(cpu),
          marks_{'\n', '\r', dialect.quote.value_or('\n'), dialect.delimiter},
          last_(last) {}

    /// As row_at.
    Row row_at(std::uint64_t at) {
        if (!follows(at)) restart(at);
        while (valid_) {
            const std::uint64_t here = at > block_at_ ? at - block_at_ : 0;
            const std::uint64_t ends = here < block_bytes ? ends_ & (~std::uint64_t{0} << here) : 0;
            if (ends != 0)
                return Walk(file_, at, dialect_, last_)
                    .closed(begin() + block_at_ + static_cast<unsigned>(std::countr_zero(ends)));
            if (inside_ != 0 && block_at_ > at + most_row_bytes) break;
            advance(block_at_ + block_bytes);
        }
        valid_ = false;
        return walk_row(file_, at, dialect_, last_);
    }

    /// Appends the starts of the rows from `at`, where one may begin, to `stop`, but of few beyond `most`. Returns
    /// where to go on, row by row: the last row found is left out, because its end is not known.
    std::uint64_t collect(std::uint64_t at, std::uint64_t stop, std::size_t most, std::vector<std::int64_t>& starts) {
        constexpr std::size_t held = 4096;
        std::array<std::int64_t, held> found;
        std::size_t count = 0;
        const auto flush = [&] {
            starts.insert(starts.end(), found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count));
            count = 0;
        };
        std::uint64_t after_end = 1; // the byte before the block ends a line
        std::uint64_t row = at;      // where the row may begin that reaches into the block
        for (restart(at); valid_ && block_at_ < stop && starts.size() + count < most;
             advance(block_at_ + block_bytes)) {
            std::uint64_t mask = ~line_ends_ & (ends_ << 1 | after_end);
            after_end = ends_ >> (block_bytes - 1);
            if (stop - block_at_ < block_bytes) mask &= (std::uint64_t{1} << (stop - block_at_)) - 1;
            if (mask != 0) row = block_at_;
            else if (inside_ != 0 && block_at_ > row + most_row_bytes) break;
            if (count + block_bytes > held) flush();
            while (mask != 0) { // Two at a time: how many there are is hard to predict.
                for (int pair = 0; pair < 2; ++pair) {
                    found[count] = static_cast<std::int64_t>(block_at_ + static_cast<unsigned>(std::countr_zero(mask)));
                    count += mask != 0;
                    mask &= mask - 1;
                }
            }
        }
        flush();
        if (starts.size() > most) starts.resize(most);
        if (starts.empty() || std::cmp_less(starts.back(), at)) return at;
        const auto next = static_cast<std::uint64_t>(starts.back());
        starts.pop_back();
        return next;
    }

    /// Where the block begins that could not be decided.
    [[nodiscard]] std::uint64_t block_at() const noexcept { return block_at_; }

  private:
    [[nodiscard]] Text begin() const noexcept { return reinterpret_cast<Text>(file_.data()); }

    /// Whether a line end in the current block precedes `at`, so that its masks serve this row, too.
    [[nodiscard]] bool follows(std::uint64_t at) const noexcept {
        const std::uint64_t before = at - block_at_ - 1;
        return valid_ && before < block_bytes && (ends_ >> before & 1) != 0;
    }

    void restart(std::uint64_t at) noexcept {
        inside_ = 0;
        after_separator_ = 1;
        after_quote_ = 0;
        known_ = ahead_ = 0;
        valid_ = true;
        advance(at);
    }

    void advance(std::uint64_t to) noexcept {
        block_at_ = to;
        if (known_ == 0) {
            const std::uint64_t left = to < file_.size() ? (file_.size() - to) / block_bytes : 0;
            ahead_ = std::min<std::size_t>(std::max<std::size_t>(2 * ahead_, 2), room);
            count_ = known_ = static_cast<std::size_t>(std::min<std::uint64_t>(left, ahead_));
            if (known_ != 0) find_marks(begin() + to, known_, marks_, masks_, cpu_);
        }
        valid_ = known_ != 0 && take(masks_[count_ - known_]);
        known_ -= valid_;
    }

    /// Whether all quotes in the next block are where they may be.
    bool take(const MarkMasks& found) noexcept {
        const std::uint64_t quotes = dialect_.quote ? found.of[2] : 0;
        const std::uint64_t line_ends = found.of[0] | found.of[1];
        const std::uint64_t separators = line_ends | found.of[3];
        constexpr unsigned top = block_bytes - 1;
        line_ends_ = line_ends;
        if ((quotes | after_quote_) == 0) {
            ends_ = line_ends & ~inside_;
            after_separator_ = (separators & ~inside_) >> top;
            return true;
        }
        const std::uint64_t quoted = between_marks(quotes) ^ inside_; // opening quotes included
        const std::uint64_t opening = quotes & quoted, closing = quotes & ~quoted;
        const std::uint64_t outside = separators & ~quoted;
        const std::uint64_t after_closing = closing << 1 | after_quote_; // where a quote opens again: a doubled one
        if ((opening & ~(outside << 1 | after_separator_ | after_closing)) != 0) return false;
        if ((after_closing & ~(outside | opening)) != 0) return false;
        ends_ = line_ends & ~quoted;
        inside_ = quoted >> top != 0 ? ~std::uint64_t{0} : 0;
        after_separator_ = outside >> top;
        after_quote_ = closing >> top;
        return true;
    }

    static constexpr std::size_t room = 16;

    Bytes file_;
    const Dialect& dialect_;
    const Cpu& cpu_;
    Marks marks_;
    bool last_;
    bool valid_ = false;
    std::uint64_t block_at_ = 0;
    std::uint64_t line_ends_ = 0;       ///< All line ends in the current block.
    std::uint64_t ends_ = 0;            ///< Line ends outside quotes in the current block.
    std::uint64_t inside_ = 0;          ///< All bits set: the next block begins inside quotes.
    std::uint64_t after_separator_ = 0; ///< 1: it begins a field.
    std::uint64_t after_quote_ = 0;     ///< 1: a closing quote precedes it.
    std::size_t count_ = 0;             ///< Blocks in masks_
    std::size_t known_ = 0;             ///< and how many of them are ahead.
    std::size_t ahead_ = 0;             ///< How many to find at once: few at first, for single rows.
    MarkMasks masks_[room];
};

/// The size in bytes of the UTF-8 character that begins here; 0 if none does.
std::size_t utf8_step(const unsigned char* at, std::size_t left) noexcept {
    const unsigned lead = at[0];
    if (lead < 0x80) return 1;
    const std::size_t size = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : (lead & 0xF0) == 0xE0        ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
    if (size == 0 || size > left) return 0;
    for (std::size_t i = 1; i < size; ++i)
        if ((at[i] & 0xC0) != 0x80) return 0;
    const unsigned second = at[1];
    const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    const bool outside =
        (lead == 0xED && second > 0x9F) || (lead == 0xF4 && second > 0x8F); // surrogates; beyond U+10FFFF
    return overlong || outside ? 0 : size;
}

} // namespace

std::size_t utf8_until(Bytes text) noexcept {
    const auto* const data = reinterpret_cast<const unsigned char*>(text.data());
    std::size_t at = 0;
    while (at < text.size()) {
        if (text.size() - at >= sizeof(std::uint64_t) &&
            (load_le<std::uint64_t>(text.data() + at) & 0x8080808080808080) == 0) {
            at += sizeof(std::uint64_t);
            continue;
        }
        const std::size_t step = utf8_step(data + at, text.size() - at);
        if (step == 0) return at;
        at += step;
    }
    return at;
}

Row row_at(Bytes file, std::uint64_t at, const Dialect& dialect, bool last, const Cpu& cpu) {
    return RowFinder(file, dialect, last, cpu).row_at(at);
}

std::vector<Bytes> fields_of(Bytes row, const Dialect& dialect) {
    std::vector<Bytes> fields;
    const Row found = Walk(row, 0, dialect, true).fields([&](Text begin, Text end) {
        fields.push_back(row.subspan(static_cast<std::size_t>(begin - reinterpret_cast<Text>(row.data())),
                                     static_cast<std::size_t>(end - begin)));
    });
    if (found.end != row.size()) throw FormatError(Fault::structure, 0, 0, found.end);
    return fields;
}

std::string_view value_of(Bytes field, const Dialect& dialect, std::vector<char>& room) {
    const std::string_view text(reinterpret_cast<Text>(field.data()), field.size());
    if (!dialect.quote || text.size() < 2 || text.front() != *dialect.quote) return text;
    const std::string_view inner = text.substr(1, text.size() - 2);
    if (inner.find(*dialect.quote) == std::string_view::npos) return inner;
    room.clear();
    for (std::size_t i = 0; i < inner.size(); ++i) {
        room.push_back(inner[i]);
        if (inner[i] == *dialect.quote) ++i;
    }
    return {room.data(), room.size()};
}

Scan scan(Bytes file, std::uint64_t start, std::uint64_t stop, const Dialect& dialect, Checks checks, bool last,
          std::size_t max_records, const Cpu& cpu) {
    RowFinder rows(file, dialect, last, cpu);
    Scan out;
    out.next = start;
    const std::uint64_t end = std::min<std::uint64_t>(stop, file.size());
    const bool checked = checks.utf8 || checks.width != 0;
    std::uint64_t one_by_one = checked ? end : 0; // Up to here, rows are found one by one.
    while (out.next < end && out.starts.size() < max_records) {
        if (out.next >= one_by_one) {
            out.next = rows.collect(out.next, end, max_records, out.starts);
            one_by_one = rows.block_at() + block_bytes;
            continue;
        }
        if (is_line_end(static_cast<char>(file[out.next]))) {
            ++out.next; // Not a row: an empty line, or the LF of a CRLF split between two chunks.
            continue;
        }
        try {
            const Row row = rows.row_at(out.next);
            if (checked) check(file, out.next, row, dialect, checks);
            out.starts.push_back(static_cast<std::int64_t>(out.next));
            out.next = row.next;
        } catch (const FormatError& fault) {
            out.faulty = true;
            out.fault = fault;
            out.fault.record = static_cast<std::int64_t>(out.starts.size());
            break;
        }
    }
    return out;
}

std::int64_t find(Bytes file, std::uint64_t start) {
    if (start == 0) return 0;
    if (start > file.size()) return -1;
    const Text begin = reinterpret_cast<Text>(file.data());
    const Text end = begin + file.size();
    Text at = line_end(begin + start - 1, end);
    while (at != end && is_line_end(*at)) ++at;
    return at == end ? -1 : at - begin;
}

std::vector<Bytes> gather(std::span<const Bytes> files, std::span<const std::int32_t> which,
                          std::span<const std::int64_t> offsets, const Dialect& dialect, const Cpu& cpu) {
    std::vector<Bytes> rows(offsets.size());
    std::optional<RowFinder> finder;
    std::size_t in = 0;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        const std::size_t number = which.empty() ? 0 : static_cast<std::size_t>(which[i]);
        try {
            if (number >= files.size()) throw FormatError(Fault::range, 0, files.size(), number);
            const auto at = static_cast<std::uint64_t>(offsets[i]);
            if (!finder || number != in) finder.emplace(files[in = number], dialect, true, cpu);
            const Row row = finder->row_at(at);
            rows[i] = files[number].subspan(at, row.end - at);
        } catch (FormatError& error) {
            error.record = static_cast<std::int64_t>(i);
            throw;
        }
    }
    return rows;
}

std::vector<Bytes> gather_adjacent(Bytes file, std::span<const std::int64_t> offsets, std::uint64_t end) {
    std::vector<Bytes> rows(offsets.size());
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        const auto begin = static_cast<std::uint64_t>(offsets[i]);
        std::uint64_t stop = i + 1 < offsets.size() ? static_cast<std::uint64_t>(offsets[i + 1]) : end;
        if (begin > stop || stop > file.size()) {
            FormatError error(Fault::range, 0, file.size(), stop);
            error.record = static_cast<std::int64_t>(i);
            throw error;
        }
        while (stop != begin && is_line_end(static_cast<char>(file[stop - 1]))) --stop;
        rows[i] = file.subspan(begin, stop - begin);
    }
    return rows;
}

} // namespace headrace::csv

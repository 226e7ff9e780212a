#include "core/csv/scan.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

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
    if (checks.utf8) {
        const std::size_t good = utf8_until(file.subspan(at, row.end - at));
        if (good != row.end - at) throw FormatError(Fault::wire, at, 0, at + good);
    }
    if (checks.width == 0) return;
    const std::uint64_t width = width_of(file, at, row, dialect);
    if (width != checks.width) throw FormatError(Fault::wrong_count, at, checks.width, width);
}

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

Row row_at(Bytes file, std::uint64_t at, const Dialect& dialect, bool last) {
    if (at > file.size()) throw FormatError(Fault::truncated, at, 1, at);
    const Walk walk(file, at, dialect, last);
    const Text begin = reinterpret_cast<Text>(file.data()) + at;
    const Text end = line_end(begin, reinterpret_cast<Text>(file.data()) + file.size());
    if (!has_quote(begin, end, dialect)) return walk.closed(end);
    return walk.fields([](Text, Text) {});
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
          std::size_t max_records) {
    Scan out;
    out.next = start;
    const std::uint64_t end = std::min<std::uint64_t>(stop, file.size());
    const bool checked = checks.utf8 || checks.width != 0;
    while (out.next < end && out.starts.size() < max_records) {
        if (is_line_end(static_cast<char>(file[out.next]))) {
            ++out.next; // Not a row: an empty line, or the LF of a CRLF split between two chunks.
            continue;
        }
        try {
            const Row row = row_at(file, out.next, dialect, last);
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
                          std::span<const std::int64_t> offsets, const Dialect& dialect) {
    std::vector<Bytes> rows(offsets.size());
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        const std::size_t number = which.empty() ? 0 : static_cast<std::size_t>(which[i]);
        try {
            if (number >= files.size()) throw FormatError(Fault::range, 0, files.size(), number);
            const auto at = static_cast<std::uint64_t>(offsets[i]);
            const Row row = row_at(files[number], at, dialect, true);
            rows[i] = files[number].subspan(at, row.end - at);
        } catch (FormatError& error) {
            error.record = static_cast<std::int64_t>(i);
            throw;
        }
    }
    return rows;
}

} // namespace headrace::csv

#include "core/csv/examine.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "core/base/thread_team.hpp"
#include "core/csv/cells/bare.hpp"
#include "core/csv/cells/counts.hpp"
#include "core/csv/fields.hpp"
#include "core/csv/grid.hpp"
#include "core/csv/number.hpp"

namespace headrace::csv {
namespace {

/// What one value looks like.
enum class Look : std::uint8_t { empty, missing, whole, positive, huge, real, boolean, text, skipped };
struct Seen {
    Look look = Look::skipped;
    bool padded = false;
    bool wide = false;
    bool negative = false;
};

Seen seen_number(const NumberFacts& number, char front) noexcept {
    const auto offset = static_cast<int>(number.kind) - static_cast<int>(NumberKind::whole);
    return {static_cast<Look>(static_cast<int>(Look::whole) + offset), number.padded, number.wide,
            number.kind != NumberKind::real && front == '-'};
}

Seen seen_value(std::string_view value, const Layout& layout) {
    if (value.empty()) return {Look::empty};
    if (layout.missing.has(value)) return {Look::missing};
    const NumberFacts number = facts_of(value, layout.dialect.decimal);
    if (number.kind != NumberKind::none) return seen_number(number, value.front());
    return {truth_of(value) >= 0 ? Look::boolean : Look::text};
}

/// What the content of a field looks like. Numbers contain no quotes.
Seen seen_field(std::string_view row, const Field& field, const Layout& layout) {
    return field.doubled ? Seen{Look::text} : seen_value(trimmed(inner_of(row, field)), layout);
}

void count(const Seen& seen, ColumnFacts& facts) noexcept {
    facts.padded += seen.padded;
    facts.wide += seen.wide;
    facts.negative += seen.negative;
    switch (seen.look) {
    case Look::empty: return void(++facts.empty);
    case Look::missing: return void(++facts.missing);
    case Look::whole: return void(++facts.whole);
    case Look::positive: return void(++facts.positive);
    case Look::huge: return void(++facts.huge);
    case Look::real: return void(++facts.real);
    case Look::boolean: return void(++facts.boolean);
    case Look::text: return void(++facts.text);
    case Look::skipped: return;
    }
}

void add(const ColumnFacts& part, ColumnFacts& sum) noexcept {
    for (const auto field : {&ColumnFacts::empty, &ColumnFacts::missing, &ColumnFacts::whole, &ColumnFacts::positive,
                             &ColumnFacts::huge, &ColumnFacts::real, &ColumnFacts::boolean, &ColumnFacts::text,
                             &ColumnFacts::padded, &ColumnFacts::wide, &ColumnFacts::negative})
        sum.*field += part.*field;
}

/// Examines rows one after another, or many at once column by column.
class Examination {
  public:
    Examination(const Layout& layout, bool until_text, const Cpu& cpu)
        : layout_(layout),
          cpu_(cpu),
          bare_(layout),
          until_text_(until_text),
          numbers_may_miss_(layout.missing.has_number(layout.dialect.decimal)),
          truths_may_miss_(layout.missing.has_truth()),
          facts_(layout.width),
          around_(layout.width, Around(&layout.missing)),
          row_(layout.width) {}

    /// Counts the values of a row; none if it is broken or of another width.
    void row(std::string_view row) {
        try {
            if (!look(row)) return;
        } catch (const FormatError&) {
            return; // Decoding reports it, with its position.
        }
        for (std::size_t k = 0; k < row_.size(); ++k) count(row_[k], facts_[k]);
    }

    /// Counts the values of rows, which are all as they should be.
    void rows(const FieldGrid& grid) {
        for (std::size_t k = 0; k < facts_.size(); ++k)
            if (!is_skipped(k)) column(grid.column(k), grid.rows(), facts_[k], around_[k]);
    }

    [[nodiscard]] const std::vector<ColumnFacts>& facts() const noexcept { return facts_; }

    /// Whether no column is looked at any more.
    [[nodiscard]] bool skips_all() const noexcept {
        for (std::size_t k = 0; k < facts_.size(); ++k)
            if (!is_skipped(k)) return false;
        return true;
    }

  private:
    [[nodiscard]] bool is_skipped(std::size_t k) const noexcept {
        return until_text_ && (facts_[k].text | facts_[k].padded) != 0;
    }

    void column(const GridColumn& column, std::size_t rows, ColumnFacts& facts, Around& around) {
        CellCounts counts;
        const bool may_miss = numbers_may_miss_ || truths_may_miss_;
        const std::size_t first =
            may_miss ? 0 : count_numbers(column, 0, rows, layout_.dialect.decimal, counts, &around, cpu_);
        if (first != rows) others(column, first, rows, may_miss ? nullptr : &around, counts, facts);
        facts.empty += counts.empty;
        facts.missing += counts.missing;
        facts.whole += counts.whole;
        facts.real += counts.real;
        facts.boolean += counts.boolean;
        facts.negative += counts.negative;
        facts.wide += counts.wide;
    }

    /// From the first value that is not a plain number.
    void others(const GridColumn& column, std::size_t first, std::size_t rows, Around* around, CellCounts& counts,
                ColumnFacts& facts) {
        CellRuns runs(bare_, column, rows, around == nullptr); // None where a missing word may be another value.
        std::size_t i = first;
        while (i < rows) {
            if (runs.readable()) {
                i = count_numbers(runs.cells(), i, runs.stop(), layout_.dialect.decimal, counts, around, cpu_);
                const std::size_t before = i;
                i = count_truths(runs.cells(), i, runs.stop(), counts, cpu_);
                if (i != before && i != runs.stop()) continue;
            }
            if (i == rows || runs.go_on(i)) continue;
            const std::string_view field(column.begin(i), column.size(i));
            count(seen_field(field, field_at(field, 0, layout_.dialect), layout_), facts);
            if (until_text_ && (facts.text | facts.padded) != 0) break;
            ++i;
        }
        const std::size_t missing = runs.missing_before(i); // They were counted as empty ones.
        facts.missing += missing;
        counts.empty -= missing;
    }

    /// Returns whether the row is as wide as wanted.
    bool look(std::string_view row) {
        std::size_t at = 0;
        for (std::size_t k = 0; k < row_.size(); ++k) {
            if (k != 0 && at++ == row.size()) return false;
            at = value(row, at, k);
        }
        return at == row.size();
    }

    /// Returns the end of the value.
    std::size_t value(std::string_view row, std::size_t at, std::size_t k) {
        const Dialect& dialect = layout_.dialect;
        const bool skipped = is_skipped(k);
        if (!skipped && !numbers_may_miss_) { // Fast path: a bare number between delimiters.
            std::size_t size = 0;
            const NumberFacts number = plain_facts_of(row.substr(at), dialect.decimal, size);
            const std::size_t end = at + size;
            if (size != 0 && (end == row.size() || row[end] == dialect.delimiter)) {
                row_[k] = seen_number(number, row[at]);
                return end;
            }
        }
        if (std::uint64_t truth = 0; !skipped && !truths_may_miss_) {
            const std::size_t end = at + truth_at(row.substr(at), truth);
            if (end != at && (end == row.size() || row[end] == dialect.delimiter)) {
                row_[k] = {Look::boolean};
                return end;
            }
        }
        const Field field = field_at(row, at, dialect);
        row_[k] = skipped ? Seen{} : seen_field(row, field, layout_);
        return field.end;
    }

    const Layout& layout_;
    const Cpu& cpu_;
    BareCells bare_;
    bool until_text_;
    bool numbers_may_miss_;
    bool truths_may_miss_;
    std::vector<ColumnFacts> facts_;
    std::vector<Around> around_;
    std::vector<Seen> row_;
};

/// Examines items in parts, which `examine_part(examination, begin, end)` does, and adds up what was found.
template <typename Part>
std::vector<ColumnFacts> examine_parts(std::size_t count, std::size_t together, const Layout& layout, bool until_text,
                                       unsigned threads, const Cpu& cpu, Part&& examine_part) {
    std::vector<ColumnFacts> sums(layout.width);
    std::mutex adding;
    ThreadTeam::shared().run(count, together, threads, [&](std::size_t begin, std::size_t end) {
        Examination examination(layout, until_text, cpu);
        examine_part(examination, begin, end);
        const std::scoped_lock lock(adding);
        for (std::size_t k = 0; k < sums.size(); ++k) add(examination.facts()[k], sums[k]);
    });
    return sums;
}

bool is_line_end(char byte) noexcept { return byte == '\n' || byte == '\r'; }

/// Whether exactly one LF or CRLF precedes a place.
bool follows_one_line_end(Bytes file, std::uint64_t at) noexcept {
    const auto before = [&](std::uint64_t k) { return k > at ? '\n' : static_cast<char>(file[at - k]); };
    if (before(1) != '\n') return false;
    return !is_line_end(before(before(2) == '\r' ? 3 : 2));
}

/// Where the runs of a scan end, if no row that reaches beyond a run has quoted line ends there. Empty if that takes a
/// closer look.
std::vector<std::uint64_t> ends_of_runs(Bytes file, std::uint64_t begin, const RunSizes& sizes) {
    std::vector<std::uint64_t> ends;
    std::uint64_t at = begin;
    for (std::uint64_t size = sizes.first; at < file.size() && at - begin < sizes.wanted;
         size = std::min(2 * size, sizes.most)) {
        const std::int64_t next = file.size() - at > size ? find(file, at + size) : -1;
        if (next >= 0 && !follows_one_line_end(file, static_cast<std::uint64_t>(next))) return {};
        at = next < 0 ? file.size() : static_cast<std::uint64_t>(next);
        ends.push_back(at);
    }
    return ends;
}

/// Splits runs further, where rows probably begin. Each piece begins where the one before ends.
std::vector<std::uint64_t> cut_runs(Bytes file, std::uint64_t begin, const std::vector<std::uint64_t>& ends) {
    constexpr std::uint64_t together_bytes = std::uint64_t{128} << 10; // some tenths of a millisecond
    std::vector<std::uint64_t> starts{begin};
    for (const std::uint64_t end : ends) {
        while (end - starts.back() > 2 * together_bytes) {
            const std::int64_t next = find(file, starts.back() + together_bytes);
            if (next < 0 || std::cmp_greater_equal(next, end)) break;
            starts.push_back(static_cast<std::uint64_t>(next));
        }
        starts.push_back(end);
    }
    return starts;
}

} // namespace

std::vector<ColumnFacts> examine(const Spans& spans, const Layout& layout, bool until_text, unsigned threads) {
    constexpr std::size_t together = 512; // rows that one thread takes: some tenths of a millisecond
    return examine_parts(spans.payloads.size(), together, layout, until_text, threads, this_cpu,
                         [&](Examination& examination, std::size_t begin, std::size_t end) {
                             for (std::size_t i = begin; i < end; ++i) examination.row(text_of(spans.payloads[i]));
                         });
}

std::vector<ColumnFacts> examine(Bytes file, std::span<const std::int64_t> starts, std::uint64_t end,
                                 const Layout& layout, bool until_text, unsigned threads, const Cpu& cpu) {
    constexpr std::size_t together_bytes = std::size_t{128} << 10; // as above
    const std::vector<Bytes> rows = gather_adjacent(file, starts, end);
    if (rows.empty()) return std::vector<ColumnFacts>(layout.width);
    const auto total = static_cast<std::size_t>(end - static_cast<std::uint64_t>(starts.front()));
    const std::size_t together =
        std::max<std::size_t>(1, rows.size() * together_bytes / std::max(total, together_bytes));
    const auto start_of = [&](std::size_t i) {
        return i < starts.size() ? static_cast<std::uint64_t>(starts[i]) : end;
    };
    return examine_parts(rows.size(), together, layout, until_text, threads, cpu,
                         [&](Examination& examination, std::size_t first, std::size_t last) {
                             FieldGrid grid(layout.dialect, layout.width, cpu);
                             const std::uint64_t stop = start_of(last);
                             std::uint64_t at = start_of(first);
                             while (at != stop) {
                                 const std::optional<std::uint64_t> next = grid.find(file, at, stop);
                                 if (!next) break;
                                 examination.rows(grid);
                                 at = *next;
                             }
                             // From the first row on that needs a closer look.
                             const auto left = std::ranges::lower_bound(starts.subspan(first, last - first),
                                                                        static_cast<std::int64_t>(at));
                             for (auto i = static_cast<std::size_t>(left - starts.begin()); i < last; ++i)
                                 examination.row(text_of(rows[i]));
                         });
}

std::optional<HeadFacts> examine_head(Bytes file, std::uint64_t begin, const RunSizes& sizes, const Layout& layout,
                                      bool until_text, unsigned threads, const Cpu& cpu) {
    if (begin >= file.size() || is_line_end(static_cast<char>(file[begin]))) return std::nullopt;
    if (sizes.first == 0 || sizes.most < sizes.first) return std::nullopt; // Runs would not go on.
    const std::vector<std::uint64_t> ends = ends_of_runs(file, begin, sizes);
    if (ends.empty()) return std::nullopt;
    // A row begins at `begin`. So one begins where a piece ends, if the piece ends with a line end outside quotes. If
    // all pieces do, all of them began with a row.
    const std::vector<std::uint64_t> starts = cut_runs(file, begin, ends);
    std::atomic<bool> failed = false;
    const auto examine_pieces = [&](Examination& examination, std::size_t first, std::size_t last) {
        FieldGrid grid(layout.dialect, layout.width, cpu);
        for (; first != last && !failed; ++first) { // Each end matters.
            const std::uint64_t stop = starts[first + 1];
            for (std::uint64_t at = starts[first]; at != stop;) {
                const std::optional<std::uint64_t> next = grid.find(file, at, stop);
                if (next) examination.rows(grid);
                else failed = true;
                at = next.value_or(stop);
            }
        }
    };
    HeadFacts out;
    out.end = ends.back();
    const std::size_t pieces = starts.size() - 1;
    Examination first_piece(layout, until_text, cpu);
    examine_pieces(first_piece, 0, 1);
    if (failed) return std::nullopt;
    out.columns = first_piece.facts();
    if (pieces == 1 || first_piece.skips_all()) return out; // What follows would not change the type of any column.
    const std::vector<ColumnFacts> others =
        examine_parts(pieces - 1, 1, layout, until_text, threads, cpu,
                      [&](Examination& examination, std::size_t first, std::size_t last) {
                          examine_pieces(examination, first + 1, last + 1);
                      });
    for (std::size_t k = 0; k < others.size(); ++k) add(others[k], out.columns[k]);
    if (failed) return std::nullopt;
    return out;
}

} // namespace headrace::csv

#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/pool.hpp"
#include "core/base/spans.hpp"
#include "core/csv/number.hpp"
#include "core/csv/scan.hpp"

namespace headrace::csv {

/// Words that stand for a value that is missing.
class Words {
  public:
    explicit Words(std::vector<std::string> words);
    [[nodiscard]] bool has(std::string_view text) const noexcept;

    /// Whether one of them is a number.
    [[nodiscard]] bool has_number(char decimal) const noexcept;

  private:
    std::vector<std::string> words_;
    std::array<bool, 256> first_{};
    std::size_t longest_ = 0;
    bool empty_ = false;
};

/// How the fields of all rows of a file are cut and understood.
struct Layout {
    Dialect dialect;
    std::size_t width = 0; ///< Fields of every row.
    Words missing{{}};
};

/// What the values of one column are. A field counts once, at the first of these that it is.
struct ColumnFacts {
    std::uint64_t empty = 0;   ///< Nothing between the delimiters; a missing value where that is a missing word.
    std::uint64_t missing = 0; ///< Another missing word.
    std::uint64_t whole = 0;   ///< Numbers, by kind.
    std::uint64_t positive = 0;
    std::uint64_t huge = 0;
    std::uint64_t real = 0;
    std::uint64_t boolean = 0;  ///< true, True, TRUE, false, ...
    std::uint64_t text = 0;     ///< Anything else.
    std::uint64_t padded = 0;   ///< Of the numbers: those that begin with a zero too many.
    std::uint64_t wide = 0;     ///< Of the whole ones: those that float64 does not hold.
    std::uint64_t negative = 0; ///< Of the whole ones.
};

/// One entry of facts per column. Rows of another width, and broken ones, are passed over: reading them reports them.
[[nodiscard]] std::vector<ColumnFacts> examine(const Spans& spans, const Layout& layout);

enum class Kind : std::uint8_t { int64 = 1, uint64, float64, float32, boolean, text };

/// One column that is wanted.
struct Spec {
    std::size_t field = 0; ///< Which field of a row.
    Kind kind = Kind::text;
    bool has_default = false; ///< What missing values become:
    std::uint64_t number = 0; ///< the bits of a number of the kind, or
    std::string words;        ///< a text.
    bool exact = false;       ///< Of float64: a whole number that would be rounded is of another kind.
};

struct Column {
    Pool::Block numbers; ///< `rows` numbers; booleans take a byte each.
    std::vector<std::string_view> texts;
};

struct Decoded {
    std::vector<Column> columns;
    std::deque<std::string> unquoted; ///< Texts that do not stand in the file as they are.
};

/// Decodes batches of rows into columns. Immutable: one decoder serves many threads.
class Decoder {
  public:
    /// Throws FormatError{range} where a spec names a field that rows do not have, or one that another names.
    Decoder(Layout layout, std::vector<Spec> specs);

    [[nodiscard]] const std::vector<Spec>& specs() const noexcept { return specs_; }

    /// Throws FormatError with `record` set: `wrong_count` for a row of another width, `wrong_kind` for a value that is
    /// not of its column's kind and `missing` for one that has no default (with `feature`), `structure` and `truncated`
    /// as row_at does. `offset` counts from the beginning of the row.
    [[nodiscard]] Decoded decode(const Spans& spans, const std::shared_ptr<Pool>& pool) const;

  private:
    friend class Run;

    Layout layout_;
    std::vector<Spec> specs_;
    bool numbers_may_miss_; ///< Whether a word for what is missing could be taken for a number.
    std::vector<int> plan_; ///< Field to spec; -1 where it is not wanted. Ends with the last one that is.
};

} // namespace headrace::csv

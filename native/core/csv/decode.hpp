#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/pool.hpp"
#include "core/base/spans.hpp"
#include "core/csv/number.hpp"
#include "core/csv/scan.hpp"
#include "core/text/strings.hpp"

namespace headrace::csv {

/// Words that mark a missing value.
class Words {
  public:
    explicit Words(std::vector<std::string> words);
    [[nodiscard]] bool has(std::string_view text) const noexcept;

    /// Whether any of them parses as a number.
    [[nodiscard]] bool has_number(char decimal) const noexcept;

  private:
    std::vector<std::string> words_;
    std::array<bool, 256> first_{};
    std::size_t longest_ = 0;
    bool empty_ = false;
};

/// How to split and parse the rows of a file.
struct Layout {
    Dialect dialect;
    std::size_t width = 0; ///< Per row.
    Words missing{{}};
};

/// What the values of one column look like. Each field counts in the first category that fits; `padded`, `wide` and
/// `negative` count subsets.
struct ColumnFacts {
    std::uint64_t empty = 0;   ///< Empty fields, whether or not the empty word marks a missing value.
    std::uint64_t missing = 0; ///< Other missing words.
    std::uint64_t whole = 0;   ///< Numbers, by kind.
    std::uint64_t positive = 0;
    std::uint64_t huge = 0;
    std::uint64_t real = 0;
    std::uint64_t boolean = 0;  ///< true, True, TRUE, false, ...
    std::uint64_t text = 0;     ///< Anything else.
    std::uint64_t padded = 0;   ///< Numbers with a superfluous leading zero.
    std::uint64_t wide = 0;     ///< Integers that float64 cannot represent.
    std::uint64_t negative = 0; ///< Negative integers.
};

/// Returns one entry per column. Skips broken rows and rows of another width; decoding reports those.
/// `until_text`: counts nothing more in a column once it has a text or a padded number.
[[nodiscard]] std::vector<ColumnFacts> examine(const Spans& spans, const Layout& layout, bool until_text = false,
                                               unsigned threads = 1);

enum class Kind : std::uint8_t { int64 = 1, uint64, float64, float32, boolean, text };

/// The characters of an encoding of one byte a character that extends ASCII: for bytes from 128 on, their UTF-8, or
/// nothing where the encoding has no such character.
using Charset = std::array<std::string, 128>;

/// A column to decode.
struct Spec {
    std::size_t field = 0; ///< Its index in a row.
    Kind kind = Kind::text;
    bool has_default = false;                 ///< Missing values become
    std::uint64_t number = 0;                 ///< the bits of a number of the kind, or
    std::string words;                        ///< a text.
    bool exact = false;                       ///< float64 only: an integer that would be rounded is `wrong_kind`.
    bool is_bytes = false;                    ///< text only: any bytes will do. Otherwise values must be UTF-8,
    std::shared_ptr<const Charset> charset{}; ///< or of these characters, which become UTF-8.
};

struct Column {
    Pool::Block numbers; ///< `rows` numbers; a boolean takes one byte.
    StringBlocks texts;
    std::optional<std::size_t> no_text; ///< The first row whose value is not text in the column's encoding.
};

struct Decoded {
    std::vector<Column> columns;
};

/// Decodes batches of rows into columns. Immutable: one decoder serves many threads.
class Decoder {
  public:
    /// Throws FormatError{range} if a spec names a field outside the row or one already named.
    Decoder(Layout layout, std::vector<Spec> specs);

    [[nodiscard]] const std::vector<Spec>& specs() const noexcept { return specs_; }

    /// Throws FormatError with `record` set: `wrong_count` for a row of another width; `structure` and `truncated` as
    /// row_at does; and, with `feature`, `wrong_kind` for a value of another kind and `missing` for a missing value
    /// without default. `offset` counts from the start of the row.
    [[nodiscard]] Decoded decode(const Spans& spans, const std::shared_ptr<Pool>& pool) const;

  private:
    friend class Run;

    Layout layout_;
    std::vector<Spec> specs_;
    bool numbers_may_miss_; ///< Whether a missing word could parse as a number,
    bool truths_may_miss_;  ///< or is a truth value.
    std::vector<int> plan_; ///< Maps fields to specs; -1: not requested. Ends with the last requested field.
};

} // namespace headrace::csv

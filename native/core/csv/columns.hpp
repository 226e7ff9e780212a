#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/pool.hpp"
#include "core/csv/cells/bare.hpp"
#include "core/csv/cells/numbers.hpp"
#include "core/csv/grid.hpp"
#include "core/csv/value.hpp"
#include "core/text/strings.hpp"

namespace headrace::csv {

struct Column {
    Pool::Block numbers; ///< `rows` numbers; a boolean takes one byte.
    StringBlocks texts;
    std::optional<std::size_t> no_text; ///< The first row whose value is not text in the column's encoding.
};

struct Decoded {
    std::vector<Column> columns;
};

/// The columns of one call of decode while they are filled, value by value or many rows at a time.
class Columns {
  public:
    /// `rows` is a limit, `bytes` is how much text they hold. A column of texts starts with room for `text_bytes`.
    Columns(const Layout& layout, const std::vector<Spec>& specs, std::shared_ptr<Pool> pool, std::size_t rows,
            std::size_t bytes, std::size_t text_bytes, const Cpu& cpu = this_cpu);

    /// Appends a number to column k.
    void put(std::size_t k, std::uint64_t bits) noexcept;

    /// Appends the number or the text in a field to column k. Throws as number_in does.
    void add(std::size_t k, std::string_view row, const Field& field);

    /// Appends all rows of a grid to all columns. Throws as number_in does; offsets do not count.
    void add(const FieldGrid& grid);

    /// The columns. Texts are checked here.
    [[nodiscard]] Decoded take();

  private:
    void add_numbers(std::size_t k, const FieldGrid& grid);
    void add_texts(std::size_t k, const FieldGrid& grid);
    [[nodiscard]] std::uint64_t slow_number(std::size_t k, std::string_view field) const;
    void finish(const Spec& spec, StringsBuilder& texts, Column& column);
    void convert(const Charset& charset, Column& column);

    const Layout& layout_;
    const std::vector<Spec>& specs_;
    const Cpu& cpu_;
    BareCells bare_;
    std::shared_ptr<Pool> pool_;
    bool numbers_may_miss_; ///< Whether a word for a missing value could parse as a number.
    bool truths_may_miss_;  ///< Whether a word for a missing value is a truth value.
    std::size_t bytes_;
    std::vector<Around> around_;        ///< What was seen around the numbers of each column.
    std::vector<NumberForm> forms_;     ///< How the numbers of each column are read.
    std::vector<std::byte*> places_;    ///< Where the next number of each column goes.
    std::vector<StringsBuilder> texts_; ///< Those of columns of numbers are empty.
    std::string room_;
    Decoded out_;
};

} // namespace headrace::csv

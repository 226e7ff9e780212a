#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/base/pool.hpp"
#include "core/base/spans.hpp"
#include "core/csv/columns.hpp"

namespace headrace::csv {

/// Rows that follow each other: the bytes [begin, end) of a file, from the start of a row to the start of the next one
/// or to the end of the file.
struct Stretch {
    Bytes file;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

/// Decodes batches of rows into columns. Immutable: one decoder serves many threads.
class Decoder {
  public:
    /// Throws FormatError{range} if a spec names a field outside the row or one already named.
    Decoder(Layout layout, std::vector<Spec> specs);

    [[nodiscard]] const std::vector<Spec>& specs() const noexcept { return specs_; }

    /// Decodes rows one by one. Throws FormatError with `record` set: `wrong_count` for a row of another width;
    /// `structure` and `truncated` as row_at does; and, with `feature`, `wrong_kind` for a value of another kind and
    /// `missing` for a missing value without default. `offset` counts from the start of the row.
    [[nodiscard]] Decoded decode(const Spans& spans, const std::shared_ptr<Pool>& pool) const;

    /// Decodes all rows of some stretches together, column by column. Nothing if there are not `rows` of them, or if
    /// any is not as it should be: decode() then says why, or decodes them.
    [[nodiscard]] std::optional<Decoded> decode(std::span<const Stretch> stretches, std::size_t rows,
                                                const std::shared_ptr<Pool>& pool, const Cpu& cpu = this_cpu) const;

  private:
    void add_row(Columns& columns, std::string_view row) const;
    std::size_t add_field(Columns& columns, std::string_view row, std::size_t at, std::size_t k) const;

    Layout layout_;
    std::vector<Spec> specs_;
    bool numbers_may_miss_; ///< Whether a missing word could parse as a number,
    bool truths_may_miss_;  ///< or is a truth value.
    std::vector<int> plan_; ///< Maps fields to specs; -1: not requested. Ends with the last requested field.
};

} // namespace headrace::csv

#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/protobuf/record/decode.hpp"

namespace headrace::sagemaker {

/// Replaces `block` with a longer one that starts with the same `used` bytes.
void grow(Pool::Block& block, std::size_t size, std::size_t used, const std::shared_ptr<Pool>& pool);

/// Bytes per key of a sparse column.
[[nodiscard]] inline std::size_t size_of_key(const Column& column) noexcept {
    return column.wide ? sizeof(std::int64_t) : sizeof(std::int32_t);
}

/// What a column must have room for.
struct Room {
    std::size_t rows = 0;
    std::size_t bytes = 0; ///< Payload bytes of all rows: an upper bound of their numbers.
};

/// Fills one column, row by row.
class Rows {
  public:
    /// Prepares `column` for what `spec` requests.
    Rows(const Spec& spec, Column& column, const std::shared_ptr<Pool>& pool, const Room& room);

    /// Adds a tensor as the next row. Throws FormatError: wrong_kind, wrong_count, wrong_shape, missing, tensor, range,
    /// wire.
    void put(const Tensor& tensor);

    /// Adds the next row of a text column; nullptr if the record has none.
    void put_text(const Bytes* text);

  private:
    void put_absent();
    void put_fixed(const Tensor& tensor);
    void put_varying(const Tensor& tensor);
    void put_sparse(const Tensor& tensor);
    void put_keys(const Tensor& tensor, std::uint64_t width, std::size_t count);
    void put_shape(std::size_t count);
    void check_shape(const Tensor& tensor, std::size_t count);
    void add_texts(const Tensor& tensor);
    void reserve(std::size_t count);
    std::byte* extend(std::size_t count);

    const Spec* spec_;
    Column* column_;
    const std::shared_ptr<Pool>* pool_;
    std::size_t n_;
    std::size_t most_; ///< Upper bound of the numbers.
    std::size_t row_ = 0;
    std::size_t item_;         ///< Bytes per number.
    std::size_t key_item_ = 0; ///< Bytes per key.
    std::size_t room_ = 0;     ///< Allocated numbers (and keys).
    std::vector<std::uint64_t> shape_;
    std::vector<std::uint64_t> wide_; ///< The keys of a row, as 64-bit integers.
};

/// Decoding the rows of one call in several parts, each on a thread of its own.

/// Where to divide rows: part k is rows [cuts[k], cuts[k + 1]). At most `most` parts of about equal size, each with at
/// least `least_bytes` of payloads. There is always one part, and no empty ones unless there are no rows.
[[nodiscard]] std::vector<std::size_t> cut_rows(std::span<const Bytes> payloads, std::size_t most,
                                                std::size_t least_bytes);

/// Calls `work(k)` for every k below `count`: the first on this thread, the others on threads of their own if
/// available. Returns when all are done. If calls failed, throws the exception of the first one.
void on_threads(std::size_t count, const std::function<void(std::size_t)>& work);

/// Joins the parts into one column per spec. Keeps the first part's blocks, so only the numbers of the others are
/// copied. Fixed columns of the first part have room for all rows.
[[nodiscard]] std::vector<Column> join_parts(const std::vector<Spec>& specs, std::vector<std::vector<Column>> parts,
                                             std::span<const std::size_t> cuts, const std::shared_ptr<Pool>& pool);

} // namespace headrace::sagemaker

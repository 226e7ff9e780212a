#pragma once

#include "core/protobuf/record/decode.hpp"

namespace headrace::sagemaker {

/// A longer block with the same first `used` bytes takes the place of `block`.
void grow(Pool::Block& block, std::size_t size, std::size_t used, const std::shared_ptr<Pool>& pool);

/// Bytes per key of a sparse column.
[[nodiscard]] inline std::size_t size_of_key(const Column& column) noexcept {
    return column.wide ? sizeof(std::int64_t) : sizeof(std::int32_t);
}

/// What a column is to have room for.
struct Room {
    std::size_t rows = 0;
    std::size_t bytes = 0; ///< Of the payloads of all rows: they cannot hold more numbers than that.
};

/// Fills one column, row by row.
class Rows {
  public:
    /// A column of what `spec` says.
    Rows(const Spec& spec, Column& column, const std::shared_ptr<Pool>& pool, const Room& room);

    /// The next row is this tensor. Throws FormatError: wrong_kind, wrong_count, wrong_shape, missing, tensor, range,
    /// wire.
    void put(const Tensor& tensor);

    /// The next row of a column of texts; nullptr where the record has none.
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
    std::size_t most_; ///< Numbers that there can be.
    std::size_t row_ = 0;
    std::size_t item_;         ///< Bytes per number.
    std::size_t key_item_ = 0; ///< Bytes per key.
    std::size_t room_ = 0;     ///< How many numbers (and keys) there is memory for.
    std::vector<std::uint64_t> shape_;
};

} // namespace headrace::sagemaker

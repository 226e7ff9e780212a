#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/pool.hpp"
#include "core/base/spans.hpp"
#include "core/protobuf/record/wire.hpp"

namespace headrace::sagemaker {

/// How a column is laid out.
enum class Layout : std::uint8_t {
    fixed,   ///< `count` values per record.
    varying, ///< A varying number of values.
    sparse,  ///< Rows of a CSR matrix.
    text,    ///< uid, metadata or configuration: one text per record.
};

/// One feature, label or string to decode.
struct Spec {
    Place place = Place::feature;
    std::string key;
    Kind kind = Kind::none;
    Layout layout = Layout::fixed;
    std::int64_t count = -1;         ///< Fixed: values per record. Sparse: the width, or -1 for any.
    std::vector<std::int64_t> shape; ///< Expected axes of a record's shape, -1 for any length. Empty: not checked.
    bool required = true;            ///< Whether a record without it is an error.
};

/// One spec's values of all records.
struct Column {
    Pool::Block numbers; ///< Values, concatenated, as the kind is stored in memory.
    std::size_t number_count = 0;
    std::vector<Bytes> texts;          ///< Values of kind bytes and texts: views of the payloads.
    std::vector<std::int64_t> offsets; ///< Varying and sparse: row i is values [offsets[i], offsets[i + 1]).
    Pool::Block keys;                  ///< Sparse: the column of each value, as int64 if `wide`, else int32.
    bool wide = false;
    std::uint64_t width = 0;          ///< Sparse: the largest width in a record.
    std::vector<std::int64_t> shapes; ///< Varying, with several axes: their lengths, record by record.
    std::vector<std::int64_t>
        absent; ///< Records without an optional entry. They get zeros, no values, or an empty text.
};

/// Decodes batches of Records into columns. Immutable: one decoder serves many threads.
class Decoder {
  public:
    /// With fewer payload bytes than this (about a millisecond of work), a thread does not pay off.
    static constexpr std::size_t usual_least_bytes = std::size_t{1} << 20;

    explicit Decoder(std::vector<Spec> specs);

    [[nodiscard]] const std::vector<Spec>& specs() const noexcept { return specs_; }

    /// One column per spec. Checks each seal right before reading its payload. If the frame allows two readings of a
    /// payload, takes the second one if only that is a Record. Throws FormatError with `record` set (and `feature`, if
    /// the fault is in one): payload_checksum, wire, truncated; wrong_kind, wrong_count, wrong_shape, missing; tensor;
    /// range for a key beyond the width. Sparse columns are decoded on up to `threads` threads including this one, each
    /// with at least `least_bytes` of payloads, as their keys take the time. Results and errors are those of a single
    /// thread.
    [[nodiscard]] std::vector<Column> decode(const Spans& spans, const std::shared_ptr<Pool>& pool,
                                             unsigned threads = 1, std::size_t least_bytes = usual_least_bytes) const;

  private:
    std::vector<Spec> specs_;
};

/// The reading of payload `i` that is a Record, or the first one if neither is.
[[nodiscard]] Bytes reading_of(const Spans& spans, std::size_t i);

} // namespace headrace::sagemaker

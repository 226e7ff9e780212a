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
    varying, ///< Any number of them.
    sparse,  ///< Rows of a CSR matrix.
    text,    ///< uid, metadata or configuration: one text per record.
};

/// One feature, label or string that is wanted.
struct Spec {
    Place place = Place::feature;
    std::string key;
    Kind kind = Kind::none;
    Layout layout = Layout::fixed;
    std::int64_t count = -1; ///< Of a fixed column: values per record. Of a sparse one: its width, or -1 for any.
    std::vector<std::int64_t>
        shape;            ///< The axes that a shape in a record must have, -1 for any length; none: not compared.
    bool required = true; ///< Whether a record without it is a fault.
};

/// All records' values of one spec.
struct Column {
    Pool::Block numbers; ///< Values end to end, as the kind lies in memory.
    std::size_t number_count = 0;
    std::vector<Bytes> texts;          ///< Values of kind bytes and texts: views of the payloads.
    std::vector<std::int64_t> offsets; ///< Varying and sparse: row i is values [offsets[i], offsets[i + 1]).
    Pool::Block keys;                  ///< Sparse: the columns of the values, int64 where `wide`, else int32.
    bool wide = false;
    std::uint64_t width = 0;          ///< Sparse: the greatest that a record says.
    std::vector<std::int64_t> shapes; ///< Varying with several axes: their lengths, record by record.
    std::vector<std::int64_t>
        absent; ///< Records without it, where it is not required: zeros, no values, or an empty text.
};

/// Decodes batches of Records into columns. Immutable: one decoder serves many threads.
class Decoder {
  public:
    /// Fewer bytes of payloads than this are not worth a thread: about a millisecond of work.
    static constexpr std::size_t usual_least_bytes = std::size_t{1} << 20;

    explicit Decoder(std::vector<Spec> specs);

    [[nodiscard]] const std::vector<Spec>& specs() const noexcept { return specs_; }

    /// One column per spec. Seals are checked, each right before its payload is read; where the frame leaves two
    /// readings of a payload, the second is taken when it is a Record and the first is not. Throws FormatError with
    /// `record` (and `feature`, where it is one) set: payload_checksum, wire, truncated; wrong_kind, wrong_count,
    /// wrong_shape, missing; tensor; range for a key beyond the width. Up to `threads` threads, this one included, work
    /// on it where a column is sparse (its keys take the time), each on `least_bytes` of payloads or more; what is
    /// returned or thrown is that of one thread.
    [[nodiscard]] std::vector<Column> decode(const Spans& spans, const std::shared_ptr<Pool>& pool,
                                             unsigned threads = 1, std::size_t least_bytes = usual_least_bytes) const;

  private:
    std::vector<Spec> specs_;
};

/// The reading of payload `i` that is a Record, or the first one when neither is.
[[nodiscard]] Bytes reading_of(const Spans& spans, std::size_t i);

} // namespace headrace::sagemaker

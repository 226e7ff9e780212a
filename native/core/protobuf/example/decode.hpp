#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/pool.hpp"
#include "core/base/spans.hpp"
#include "core/protobuf/example/scan.hpp"

namespace headrace::example {

/// One feature that is wanted.
struct Spec {
    std::string name;
    Kind kind = Kind::none;
    std::int64_t count = -1;        ///< Values per example (per step of a feature list); -1 where that varies.
    bool list = false;              ///< A feature list of a SequenceExample rather than a feature.
    bool has_default = false;       ///< What an example without the feature gets (fixed counts only):
    std::vector<std::byte> numbers; ///< `count` numbers as they lie in memory, or
    std::vector<std::string> texts; ///< `count` texts.
};

/// A feature of all examples of a batch.
struct Column {
    Pool::Block numbers; ///< float or int64 values, end to end.
    std::size_t number_count = 0;
    std::vector<Bytes> texts;          ///< Values of kind bytes: views of the payloads or of the decoder's defaults.
    std::vector<std::int64_t> steps;   ///< n + 1 offsets of feature lists, counted in steps.
    std::vector<std::int64_t> offsets; ///< Where the count varies: one more than there are examples (or steps).
};

/// Decodes batches of payloads into columns. Immutable: one decoder serves many threads.
class Decoder {
  public:
    explicit Decoder(std::vector<Spec> specs);

    [[nodiscard]] const std::vector<Spec>& specs() const noexcept { return specs_; }

    /// One column per spec. Seals are checked, each right before its payload is read. Throws FormatError with `record`
    /// (and `feature`, where it is one) set.
    [[nodiscard]] std::vector<Column> decode(const Spans& spans, const std::shared_ptr<Pool>& pool) const;

  private:
    friend class Run;

    std::vector<Spec> specs_;
    std::unordered_map<std::string, int> features_; ///< Name to spec, of features.
    std::unordered_map<std::string, int> lists_;    ///< The same of feature lists.
};

/// How many values a list holds. Throws FormatError{wire} for packed runs that do not end with a whole value.
[[nodiscard]] std::size_t count_values(const List& list);

/// Writes the numbers of a list, if there are `count` of them, and returns how many there are. `wanted` is float32 or
/// int64, which must be the list's kind and is stored as it is, or number, which is stored as double. Where the answer
/// is not `count`, there may be anything in the `count` places at `to`. Throws FormatError{range} for a whole number
/// that no double holds.
[[nodiscard]] std::size_t read_numbers(const List& list, Kind wanted, std::size_t count, std::byte* to);

/// Calls `on_text(bytes)` for every value of a list of kind bytes.
template <typename OnText> void each_text(const List& list, OnText&& on_text) {
    const auto in_piece = [&](Part piece) { walk_fields(piece, 1, [&](Part text) { on_text(text.bytes); }); };
    in_piece(list.piece);
    for (const Part& piece : list.more) in_piece(piece);
}

} // namespace headrace::example

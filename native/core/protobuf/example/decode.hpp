#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/cpu.hpp"
#include "core/base/pool.hpp"
#include "core/base/spans.hpp"
#include "core/protobuf/example/scan.hpp"

namespace headrace::example {

/// A feature to decode.
struct Spec {
    std::string name;
    Kind kind = Kind::none;
    std::int64_t count = -1;        ///< Values per example (per step of a feature list); -1: varies.
    bool text = false;              ///< Values of kind bytes are UTF-8.
    bool list = false;              ///< A feature list of a SequenceExample.
    bool has_default = false;       ///< Whether examples without the feature get a default (fixed counts only):
    std::vector<std::byte> numbers; ///< `count` numbers as in memory, or
    std::vector<std::string> texts; ///< `count` texts.
};

/// One feature of all examples of a batch.
struct Column {
    Pool::Block numbers; ///< float or int64 values, concatenated.
    std::size_t number_count = 0;
    std::vector<Bytes> texts;          ///< Values of kind bytes: views of the payloads or of the decoder's defaults.
    std::vector<std::int64_t> steps;   ///< Feature lists: n + 1 offsets, in steps.
    std::vector<std::int64_t> offsets; ///< If the count varies: one more than there are examples (or steps).
};

/// Decodes batches of payloads into columns. Immutable: one decoder serves many threads.
class Decoder {
  public:
    explicit Decoder(std::vector<Spec> specs, const Cpu& cpu = this_cpu);

    [[nodiscard]] const std::vector<Spec>& specs() const noexcept { return specs_; }

    /// One column per spec. Checks each seal right before reading its payload. Throws FormatError with `record` set,
    /// and `feature` if the fault is in one.
    [[nodiscard]] std::vector<Column> decode(const Spans& spans, const std::shared_ptr<Pool>& pool) const;

  private:
    friend class Run;

    std::vector<Spec> specs_;
    Cpu cpu_;
    std::unordered_map<std::string, int> features_; ///< Feature names to specs.
    std::unordered_map<std::string, int> lists_;    ///< Feature list names to specs.
};

/// The number of values in a list. Throws FormatError{wire} for a packed run that ends within a value.
[[nodiscard]] std::size_t count_values(const List& list, const Cpu& cpu = this_cpu);

/// Writes the numbers of a list if there are exactly `count`, and returns how many there are; if the result differs,
/// the content of `to` is undefined. `wanted` is the list's own kind (float32 or int64, stored unchanged) or number
/// (stored as double). Throws FormatError{range} for an integer that double cannot represent.
[[nodiscard]] std::size_t read_numbers(const List& list, Kind wanted, std::size_t count, std::byte* to,
                                       const Cpu& cpu = this_cpu);

/// Calls `on_text(bytes)` for every value of a list of kind bytes.
template <typename OnText> void each_text(const List& list, OnText&& on_text) {
    const auto in_piece = [&](Part piece) { walk_fields(piece, 1, [&](Part text) { on_text(text.bytes); }); };
    in_piece(list.piece);
    for (const Part& piece : list.more) in_piece(piece);
}

} // namespace headrace::example

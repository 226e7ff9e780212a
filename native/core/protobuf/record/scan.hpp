#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/spans.hpp"
#include "core/protobuf/example/scan.hpp"
#include "core/protobuf/record/wire.hpp"

namespace headrace::sagemaker {

/// What was seen at one place, or under one key of a map.
struct KeyFacts {
    Place place = Place::feature;
    std::string key;
    std::uint64_t records = 0;               ///< Records that have it (for the maps: with a tensor).
    std::array<std::uint64_t, kinds> held{}; ///< How many Values held each Kind; index 0: nothing.
    std::uint64_t sparse = 0;                ///< Records with keys.
    std::uint64_t shape_only =
        0; ///< Records with a shape of some elements, but neither values nor keys: empty sparse rows.
    std::uint64_t fewest = UINT64_MAX; ///< Values per record, of those that are neither.
    std::uint64_t most = 0;
    std::uint64_t shaped = 0;             ///< Records with a shape.
    bool same_rank = true;                ///< All shapes have the number of axes that the first has:
    std::vector<std::uint64_t> shortest;  ///< the least length of each axis,
    std::vector<std::uint64_t> longest;   ///< and the greatest.
    std::uint64_t narrowest = UINT64_MAX; ///< Elements of the shapes.
    std::uint64_t widest = 0;
    bool sound = true;                     ///< No tensor contradicts itself.
    std::uint64_t texts = 0;               ///< Values of kind bytes that were looked at.
    bool plain_text = true;                ///< All of them are text.
    std::array<std::uint64_t, 7> images{}; ///< How many of them are each example::Image.
};

/// Gathers facts on everything in some Records, for finding their schema.
class Scanner {
  public:
    /// Looks at the records of `spans`. Payloads that are no Records are only counted.
    void add(const Spans& spans);

    [[nodiscard]] std::uint64_t records() const noexcept { return records_; }
    [[nodiscard]] std::uint64_t rejected() const noexcept { return rejected_; }
    [[nodiscard]] const std::vector<KeyFacts>& keys() const noexcept { return keys_; }

  private:
    struct Found {
        std::size_t facts;
        Tensor tensor;
    };

    void record(Bytes payload);
    void note(KeyFacts& facts, const Tensor& tensor);
    void note_shape(KeyFacts& facts);
    std::size_t facts_of(Place place, Bytes key);

    std::vector<KeyFacts> keys_;
    std::unordered_map<std::string, std::size_t> index_;
    std::vector<std::size_t> slots_; ///< Of each key: which of `found_` is its tensor in the record at hand.
    std::vector<Found> found_;
    std::vector<std::uint64_t> shape_;
    Entry entry_;
    std::uint64_t records_ = 0;
    std::uint64_t rejected_ = 0;
};

} // namespace headrace::sagemaker

#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/spans.hpp"
#include "core/protobuf/example/scan.hpp"
#include "core/protobuf/record/wire.hpp"

namespace headrace::sagemaker {

/// Facts about one place, or about one key of a map.
struct KeyFacts {
    Place place = Place::feature;
    std::string key;
    std::uint64_t records = 0;               ///< Records that have it (in maps: with a tensor).
    std::array<std::uint64_t, kinds> held{}; ///< Number of Values per Kind; index 0: nothing.
    std::uint64_t sparse = 0;                ///< Records with keys.
    std::uint64_t shape_only = 0;      ///< Records with a non-empty shape but no values or keys: empty sparse rows.
    std::uint64_t fewest = UINT64_MAX; ///< Values per record, for all other records.
    std::uint64_t most = 0;
    std::uint64_t shaped = 0;             ///< Records with a shape.
    bool same_rank = true;                ///< Whether all shapes have as many axes as the first.
    std::vector<std::uint64_t> shortest;  ///< The shortest length of each axis,
    std::vector<std::uint64_t> longest;   ///< and the longest.
    std::uint64_t narrowest = UINT64_MAX; ///< Elements of a shape.
    std::uint64_t widest = 0;
    bool sound = true;                     ///< Whether every tensor is consistent.
    std::uint64_t texts = 0;               ///< Number of bytes values examined.
    bool plain_text = true;                ///< Whether all of them are text.
    std::array<std::uint64_t, 7> images{}; ///< Number of them per example::Image.
};

/// Gathers facts on everything in some Records, to infer a schema.
class Scanner {
  public:
    /// Examines the records of `spans`. Payloads that are not Records are only counted.
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
    std::vector<std::size_t> slots_; ///< Per key: the index in `found_` of its tensor in the current record.
    std::vector<Found> found_;
    std::vector<std::uint64_t> shape_;
    Entry entry_;
    std::uint64_t records_ = 0;
    std::uint64_t rejected_ = 0;
};

} // namespace headrace::sagemaker

#pragma once

#include <array>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/spans.hpp"
#include "core/protobuf/example/scan.hpp"
#include "core/protobuf/record/decode.hpp"
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
    [[nodiscard]] std::uint64_t strangers() const noexcept { return strangers_; }
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
    std::uint64_t strangers_ = 0;
};

/// Decoding the rows of one call in several parts, each on a thread of its own.

/// Where to cut rows: part k is rows [cuts[k], cuts[k + 1]). At most `most` parts of about equally many bytes, as many
/// as have `least_bytes` each; always at least one, and none without rows where there are rows.
[[nodiscard]] std::vector<std::size_t> cut_rows(std::span<const Bytes> payloads, std::size_t most,
                                                std::size_t least_bytes);

/// Calls `work(k)` for every k below `count`, the first on this thread and each other on one of its own where threads
/// are to be had. Returns when all are done, and then throws what the first of those that failed threw.
void on_threads(std::size_t count, const std::function<void(std::size_t)>& work);

/// One column of each spec, of the parts that rows were cut into. The first part's blocks are kept, so that only the
/// numbers of the others are copied; fixed columns of the first part have room for all rows.
[[nodiscard]] std::vector<Column> join_parts(const std::vector<Spec>& specs, std::vector<std::vector<Column>> parts,
                                             std::span<const std::size_t> cuts, const std::shared_ptr<Pool>& pool);

} // namespace headrace::sagemaker

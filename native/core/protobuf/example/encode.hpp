#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/pool.hpp"
#include "core/protobuf/example/scan.hpp"

namespace headrace::example {

/// A feature of all examples of a batch, to be written.
struct Source {
    std::string name;
    Kind kind = Kind::none;
    bool list = false;                  ///< A feature list: `steps` cuts it into examples.
    std::int64_t count = -1;            ///< Values per example or step; -1: `offsets` says.
    const std::byte* numbers = nullptr; ///< float or int64 values, end to end,
    std::size_t number_count = 0;       ///< this many,
    std::vector<Bytes> texts;           ///< or texts.
    std::vector<std::int64_t> steps;    ///< n + 1 offsets in steps.
    std::vector<std::int64_t> offsets;  ///< Offsets in values, one more than there are examples or steps.
};

/// Payloads that lie in one block, with free bytes before and behind each, for a format's frame.
struct Encoded {
    Pool::Block block;
    std::size_t size = 0;
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> sizes;
};

/// Serialises `n` examples: tf.train.Example, or SequenceExample where a source is a list. Keys in order, numbers
/// packed: the bytes that protobuf's deterministic serialisation gives. `head` bytes stay free before each payload, and
/// `tail` plus what is missing to a multiple of `align` behind it. Throws FormatError{wrong_count, feature = which
/// source} when a source does not hold what its counts say, FormatError{changed, record} when numbers are changed
/// meanwhile.
[[nodiscard]] Encoded encode(std::vector<Source> sources, std::size_t n, std::size_t head, std::size_t tail,
                             std::size_t align, const std::shared_ptr<Pool>& pool);

} // namespace headrace::example

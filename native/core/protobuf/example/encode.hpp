#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/protobuf/example/scan.hpp"
#include "core/protobuf/payloads.hpp"

namespace headrace::example {

/// One feature of all examples of a batch, to encode.
struct Source {
    std::string name;
    Kind kind = Kind::none;
    bool list = false;                  ///< A feature list: `steps` divides it into examples.
    std::int64_t count = -1;            ///< Values per example or step; -1: given by `offsets`.
    const std::byte* numbers = nullptr; ///< float or int64 values, concatenated,
    std::size_t number_count = 0;       ///< this many,
    std::vector<Bytes> texts;           ///< or texts.
    std::vector<std::int64_t> steps;    ///< n + 1 offsets in steps.
    std::vector<std::int64_t> offsets;  ///< Offsets in values, one more than there are examples or steps.
};

/// Encodes `n` examples as tf.train.Example, or SequenceExample if a source is a list. Keys are sorted and numbers
/// packed, as in protobuf's deterministic serialisation. Leaves `head` bytes free before each payload, and `tail` bytes
/// plus padding to a multiple of `align` after it. Throws FormatError{wrong_count, feature = index of the source} if a
/// source does not match its counts, FormatError{changed, record} if numbers change during the call.
[[nodiscard]] proto::Payloads encode(std::vector<Source> sources, std::size_t n, std::size_t head, std::size_t tail,
                                     std::size_t align, const std::shared_ptr<Pool>& pool);

} // namespace headrace::example

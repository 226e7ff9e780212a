#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/pool.hpp"
#include "core/protobuf/record/wire.hpp"

namespace headrace::sagemaker {

/// A feature, label or string of all records of a batch, to be written.
struct Source {
    Place place = Place::feature;
    std::string key;
    Kind kind = Kind::none;  ///< none: a string (uid, ...), one text per record; empty ones are left out.
    std::int64_t count = -1; ///< Values per record; -1: `offsets` says.
    std::vector<std::int64_t> offsets{};
    const std::byte* numbers = nullptr; ///< float, double or int32 values, end to end,
    std::size_t number_count = 0;       ///< this many,
    std::vector<Bytes> texts{};         ///< or texts.
    bool sparse = false;                ///< `keys` are written, and `width` as the shape:
    const std::byte* keys = nullptr;    ///< as many as there are values, int64 where `wide_keys`, else int32.
    bool wide_keys = false;
    std::size_t key_count = 0;
    std::uint64_t width = 0;
    std::vector<std::uint64_t> shape{}; ///< Dense: the shape that is written with every record; none: not written, or
    std::vector<std::int64_t> shapes{}; ///< `rank` axes for each record.
    std::size_t rank = 0;
};

/// Payloads that lie in one block, with free bytes before and behind each, for a format's frame.
struct Encoded {
    Pool::Block block;
    std::size_t size = 0;
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> sizes;
};

/// Serialises `n` Records: fields in the order of their numbers, map entries in the order of their keys, numbers
/// packed. These are the bytes of the SDK's writers. `head` bytes stay free before each payload, and `tail` plus what
/// is missing to a multiple of `align` behind it. Throws FormatError with `feature` (which source) set: wrong_count
/// when a source does not hold what its counts say; range with `record` set for a key outside the width.
[[nodiscard]] Encoded encode(const std::vector<Source>& sources, std::size_t n, std::size_t head, std::size_t tail,
                             std::size_t align, const std::shared_ptr<Pool>& pool);

} // namespace headrace::sagemaker

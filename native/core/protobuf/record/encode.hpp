#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/protobuf/payloads.hpp"
#include "core/protobuf/record/wire.hpp"

namespace headrace::sagemaker {

/// One feature, label or string of all records of a batch, to encode.
struct Source {
    Place place = Place::feature;
    std::string key;
    Kind kind = Kind::none;  ///< none: a string (uid, ...), one text per record; empty ones are omitted.
    std::int64_t count = -1; ///< Values per record; -1: given by `offsets`.
    std::vector<std::int64_t> offsets{};
    const std::byte* numbers = nullptr; ///< float, double or int32 values, concatenated,
    std::size_t number_count = 0;       ///< this many,
    std::vector<Bytes> texts{};         ///< or texts.
    bool sparse = false;                ///< Writes `keys`, and `width` as the shape:
    const std::byte* keys = nullptr;    ///< one key per value, int64 if `wide_keys`, else int32.
    bool wide_keys = false;
    std::size_t key_count = 0;
    std::uint64_t width = 0;
    std::vector<std::uint64_t> shape{}; ///< Dense: the shape of every record, or
    std::vector<std::int64_t> shapes{}; ///< `rank` axes per record. Neither: no shape is written.
    std::size_t rank = 0;
};

/// Encodes `n` Records: fields in order of their numbers, map entries in order of their keys, numbers packed, byte for
/// byte as the SDK's writers do. Leaves `head` bytes free before each payload, and `tail` bytes plus padding to a
/// multiple of `align` after it. Throws FormatError with `feature` (index of the source) set: wrong_count if a source
/// does not match its counts; range, with `record` set, for a key outside the width.
[[nodiscard]] proto::Payloads encode(const std::vector<Source>& sources, std::size_t n, std::size_t head,
                                     std::size_t tail, std::size_t align, const std::shared_ptr<Pool>& pool);

} // namespace headrace::sagemaker

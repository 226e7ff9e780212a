#pragma once

#include <string>
#include <vector>

#include "core/base/spans.hpp"

/// What ArrayRecord adds to Riegeli: a last chunk that says where all others are, and a last block that says where that
/// one is. Source: the ArrayRecord project, cpp/layout.proto.
namespace headrace::array_record {

inline constexpr std::uint64_t magic = 0x71930e704fdae05e;

/// What the footer says.
struct Footer {
    std::uint64_t num_records = 0;
    std::string options;                     ///< Of the writer, in its own notation.
    std::vector<std::int64_t> offsets;       ///< Where each chunk of records begins.
    std::vector<std::int64_t> decoded_sizes; ///< Of its records together.
    std::vector<std::int64_t> record_counts; ///< How many there are in it.
};

/// Reads the records of the footer chunk. Throws `structure` where they contradict each other, `wire` where they are no
/// messages.
[[nodiscard]] Footer parse_footer(std::span<const Bytes> records);

/// The records of the footer chunk, joined, and their sizes.
struct EncodedFooter {
    std::vector<std::byte> values;
    std::vector<std::int64_t> sizes;
};

[[nodiscard]] EncodedFooter encode_footer(const Footer& footer);

/// Where the footer chunk begins, from a record of the postscript. Throws `magic` or `wire`.
[[nodiscard]] std::uint64_t parse_postscript(Bytes record);

/// A record of the postscript.
[[nodiscard]] std::vector<std::byte> encode_postscript(std::uint64_t footer_offset);

} // namespace headrace::array_record

#pragma once

#include <string>
#include <vector>

#include "core/base/spans.hpp"

/// ArrayRecord's additions to Riegeli: a footer chunk with the offsets of all chunks, and a postscript block with the
/// offset of the footer. Source: the ArrayRecord project, cpp/layout.proto.
namespace headrace::array_record {

inline constexpr std::uint64_t magic = 0x71930e704fdae05e;

/// The content of the footer.
struct Footer {
    std::uint64_t num_records = 0;
    std::string options;                     ///< The writer's options, in its own notation.
    std::vector<std::int64_t> offsets;       ///< Where each chunk of records begins.
    std::vector<std::int64_t> decoded_sizes; ///< Total size of the chunk's records.
    std::vector<std::int64_t> record_counts; ///< Number of the chunk's records.
};

/// Parses the records of the footer chunk. Throws `structure` if they contradict each other, `wire` if they are not
/// valid messages.
[[nodiscard]] Footer parse_footer(std::span<const Bytes> records);

/// The records of the footer chunk, concatenated, and their sizes.
struct EncodedFooter {
    std::vector<std::byte> values;
    std::vector<std::int64_t> sizes;
};

[[nodiscard]] EncodedFooter encode_footer(const Footer& footer);

/// Where the footer chunk begins, according to a record of the postscript. Throws `magic` or `wire`.
[[nodiscard]] std::uint64_t parse_postscript(Bytes record);

/// A record of the postscript.
[[nodiscard]] std::vector<std::byte> encode_postscript(std::uint64_t footer_offset);

} // namespace headrace::array_record

#pragma once

#include <optional>

#include "core/base/cursor.hpp"

/// Columns of Parquet files. Sources: Parquet's parquet.thrift and Encodings.md, Thrift's compact protocol.
namespace headrace::parquet {

enum class PageType : std::uint8_t { data = 0, index = 1, dictionary = 2, data_v2 = 3 };

/// Numbers of the encodings, as in parquet.thrift. Others are `other`.
enum class Encoding : std::uint8_t {
    plain = 0,
    plain_dictionary = 2,
    rle = 3,
    deltas = 5,        ///< Of numbers.
    delta_lengths = 6, ///< Of texts.
    delta_texts = 7,   ///< Which begin with a part of the one before.
    rle_dictionary = 8,
    byte_streams = 9, ///< The first bytes of all numbers, then the second ones, ...
    other = 255
};

/// The header in front of a page.
struct PageHeader {
    PageType type = PageType::data;
    std::uint64_t stored_bytes = 0;      ///< Of the page, after its header.
    std::uint64_t decoded_bytes = 0;     ///< What they decompress to.
    std::optional<std::uint32_t> crc;    ///< CRC-32 of the stored bytes.
    std::uint64_t values = 0;            ///< Entries of a dictionary; levels of a data page, those of nulls included.
    Encoding encoding = Encoding::other; ///< Of the values.
    Encoding repetition = Encoding::rle; ///< Of the levels.
    Encoding definition = Encoding::rle; ///< Of the levels.
    std::uint64_t repetition_bytes = 0;  ///< v2: before the values, never compressed.
    std::uint64_t definition_bytes = 0;  ///< v2: after those, never compressed.
    std::uint64_t nulls = 0;             ///< v2.
    std::uint64_t rows = 0;              ///< v2.
    bool is_compressed = true; ///< v2: whether the values are. In other pages, the codec of the column says so.
};

/// Reads the header of a page, and moves `cursor` behind it. Throws FormatError: `truncated`, `wire` for bytes that are
/// not Thrift, `structure` for a type of page that is unknown, a missing field, a negative or contradictory number
/// (levels of v2 that take more than the page, more nulls or rows than levels).
[[nodiscard]] PageHeader read_page_header(Cursor& cursor);

} // namespace headrace::parquet

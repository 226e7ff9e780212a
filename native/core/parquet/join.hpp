#pragma once

#include <vector>

#include "core/base/cursor.hpp"

namespace headrace::parquet {

/// A file whose row groups go into another one.
struct JoinedPart {
    Bytes footer;      ///< Its FileMetaData.
    std::int64_t move; ///< How many bytes later its pages are there, at least 0.
};

/// The FileMetaData of a file that holds the row groups of several, one part after another. All else is that of the
/// first part. Throws FormatError as read_chunks does, with the number of the part as its record; `structure` also
/// where a part has another schema than the first, or an offset or a number of rows is none.
[[nodiscard]] std::vector<std::byte> join_footers(std::span<const JoinedPart> parts);

} // namespace headrace::parquet

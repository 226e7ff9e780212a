#pragma once

#include <vector>

#include "core/base/cursor.hpp"

namespace headrace::parquet {

/// Where the pages of one column in one row group are. All numbers are those of the file: nothing is checked but that
/// none is negative.
struct ColumnChunk {
    std::int64_t begin;  ///< Of its first page in the file: that of the dictionary, if there is one.
    std::int64_t size;   ///< Bytes of all its pages.
    std::int64_t levels; ///< How many values, those of nulls and of empty lists included.
    std::int64_t rows;   ///< Of the row group.
    std::int64_t
        codec; ///< As in parquet.thrift: 0 none, 1 Snappy, 2 GZIP, 3 LZO, 4 Brotli, 5 LZ4, 6 Zstandard, 7 LZ4_RAW.
    std::int64_t
        type; ///< The physical type: 0 BOOLEAN, 1 INT32, 2 INT64, 3 INT96, 4 FLOAT, 5 DOUBLE, 6 BYTE_ARRAY, 7 FIXED.
    std::int64_t repetitions = 0; ///< How many repetition levels its statistics count; 0: none.
    std::int64_t definitions = 0; ///< The same of definition levels.
};

/// The columns of the row groups of a file.
struct Chunks {
    std::size_t columns = 0;      ///< In every row group.
    std::vector<ColumnChunk> all; ///< Row group after row group.
};

/// Reads a FileMetaData (other bytes may follow it). Throws FormatError: `truncated`, `wire`, or `structure`: a row
/// group has other columns than the first, a field is missing or negative, the file or a column is encrypted, or a
/// column lies in another file. Memory grows only with what has been read.
[[nodiscard]] Chunks read_chunks(Bytes footer);

} // namespace headrace::parquet

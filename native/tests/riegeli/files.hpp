#pragma once

#include <string>
#include <vector>

#include "core/riegeli/write.hpp"

namespace headrace::testing {

/// Builds a Riegeli file.
class FileMaker {
  public:
    FileMaker() { put({riegeli::ChunkType::signature, 0, 0, {}}); }

    /// Appends a chunk and returns its start.
    std::uint64_t put(const riegeli::ChunkToWrite& chunk) {
        const std::uint64_t begin = file.size();
        file.resize(chunk.end(begin));
        riegeli::write_chunk(chunk, begin, file.data() + begin);
        return begin;
    }

    /// Appends an uncompressed simple chunk of these records.
    std::uint64_t put_records(const std::vector<std::string>& records) {
        std::vector<std::int64_t> sizes;
        riegeli::ChunkToWrite chunk;
        for (const std::string& record : records) {
            sizes.push_back(static_cast<std::int64_t>(record.size()));
            chunk.decoded_size += record.size();
            ++chunk.num_records;
        }
        riegeli::SimplePrefixes prefixes(riegeli::Codec::none);
        prefixes.add(sizes, nullptr);
        chunk.pieces.push_back(prefixes[0]);
        for (const std::string& record : records) chunk.pieces.push_back(std::as_bytes(std::span(record)));
        return put(chunk);
    }

    /// Appends a chunk with this data.
    std::uint64_t put_data(riegeli::ChunkType type, std::uint64_t num_records, std::uint64_t decoded_size, Bytes data) {
        return put({type, num_records, decoded_size, {data}});
    }

    std::vector<std::byte> file;
};

} // namespace headrace::testing

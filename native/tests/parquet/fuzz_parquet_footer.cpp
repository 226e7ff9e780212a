// Reads arbitrary bytes as the footer of a Parquet file and as headers of pages. The result is a fault, or numbers that
// are not negative, and no more of them than the bytes can hold.
#include <algorithm>
#include <cstdlib>

#include "core/parquet/footer.hpp"
#include "core/parquet/page.hpp"

using namespace headrace;

namespace {

constexpr std::size_t smallest_column = 15; // bytes that a column takes in a footer

void must(bool good) {
    if (!good) std::abort();
}

void as_footer(Bytes footer) {
    const parquet::Chunks chunks = parquet::read_chunks(footer);
    must(chunks.all.size() * smallest_column <= footer.size());
    must(chunks.columns == 0 ? chunks.all.empty() : chunks.all.size() % chunks.columns == 0);
    for (const parquet::ColumnChunk& chunk : chunks.all)
        must(std::min({chunk.begin, chunk.size, chunk.levels, chunk.rows, chunk.codec, chunk.type}) >= 0 &&
             std::max(chunk.codec, chunk.type) <= 7);
}

void as_pages(Bytes bytes) {
    constexpr std::uint64_t most = INT32_MAX;
    Cursor cursor(bytes);
    while (!cursor.done()) {
        const std::size_t before = cursor.remaining();
        const parquet::PageHeader header = parquet::read_page_header(cursor);
        must(cursor.remaining() < before);
        must(std::max({header.stored_bytes, header.decoded_bytes, header.values}) <= most);
        must(header.repetition_bytes + header.definition_bytes <= std::min(header.stored_bytes, header.decoded_bytes) &&
             header.nulls <= header.values && header.rows <= header.values);
        cursor.skip(header.stored_bytes);
    }
}

template <typename Read> void try_to(Read read, Bytes bytes) {
    try {
        read(bytes);
    } catch (const FormatError& error) {
        must(error.offset <= bytes.size());
        must(error.fault == Fault::truncated || error.fault == Fault::wire || error.fault == Fault::structure);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data),
                                       reinterpret_cast<const std::byte*>(data) + size); // without room behind it
    try_to(as_footer, bytes);
    try_to(as_pages, bytes);
    return 0;
}

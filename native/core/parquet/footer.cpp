#include "core/parquet/footer.hpp"

#include <algorithm>

#include "core/parquet/thrift.hpp"

namespace headrace::parquet {
namespace {

constexpr std::int64_t missing = -1;   // No number here may be negative.
constexpr std::int64_t last_codec = 7; // LZ4_RAW
constexpr std::int64_t last_type = 7;  // FIXED_LEN_BYTE_ARRAY

class FooterReader {
  public:
    explicit FooterReader(Bytes footer) noexcept : cursor_(footer), reader_(cursor_) {}

    // FileMetaData.
    Chunks read() {
        bool found = false;
        reader_.each_field([&](const ThriftField& field) {
            if (field.number == 8 || field.number == 9) refuse(); // encryption_algorithm, footer_signing_key_metadata
            if (field.number != 4 || field.type != ThriftType::list) return false; // row_groups
            if (found) refuse();
            found = true;
            const std::uint64_t groups = structs();
            for (std::uint64_t i = 0; i < groups; ++i) read_group(i == 0);
            return true;
        });
        if (!found) refuse();
        return std::move(chunks_);
    }

  private:
    [[noreturn]] void refuse() const { throw FormatError(Fault::structure, cursor_.offset()); }

    // How many structs a list has.
    std::uint64_t structs() {
        const ThriftReader::Elements found = reader_.elements();
        if (found.count != 0 && found.type != ThriftType::structure) refuse();
        return found.count;
    }

    // RowGroup.
    void read_group(bool is_first) {
        const std::size_t begin = chunks_.all.size();
        std::int64_t rows = missing;
        bool found = false;
        reader_.each_field([&](const ThriftField& field) {
            if (field.number == 3 && field.type == ThriftType::i64) { // num_rows
                rows = reader_.integer();
                return true;
            }
            if (field.number != 1 || field.type != ThriftType::list) return false; // columns
            if (found) refuse();
            found = true;
            const std::uint64_t columns = structs();
            if (is_first) chunks_.columns = columns;
            if (columns != chunks_.columns) refuse();
            for (std::uint64_t i = 0; i < columns; ++i) read_column(is_first, i);
            return true;
        });
        if (!found || rows < 0) refuse();
        for (std::size_t i = begin; i < chunks_.all.size(); ++i) chunks_.all[i].rows = rows;
    }

    // ColumnChunk.
    void read_column(bool is_first, std::size_t index) {
        bool found = false;
        reader_.each_field([&](const ThriftField& field) {
            if (field.number == 8 || field.number == 9) refuse();        // crypto_metadata, encrypted_column_metadata
            if (field.number == 1 && field.type == ThriftType::binary) { // file_path
                if (!reader_.binary().empty()) refuse();
                return true;
            }
            if (field.number != 3 || field.type != ThriftType::structure) return false; // meta_data
            if (found) refuse();
            found = true;
            read_metadata(is_first, index);
            return true;
        });
        if (!found) refuse();
    }

    // ColumnMetaData.
    void read_metadata(bool is_first, std::size_t index) {
        ColumnChunk chunk{missing, missing, missing, missing, missing, missing};
        std::int64_t data = missing, dictionary = missing;
        Bytes path;
        reader_.each_field([&](const ThriftField& field) {
            if (field.number == 3 && field.type == ThriftType::list) { // path_in_schema
                const std::byte* begin = cursor_.position();
                reader_.skip(field.type);
                path = {begin, cursor_.position()};
                return true;
            }
            if (field.number == 16 && field.type == ThriftType::structure) { // size_statistics
                read_sizes(chunk);
                return true;
            }
            // A field of another type counts as one that is unknown, as it does for Thrift.
            const bool is_short = field.number == 1 || field.number == 4;
            if (field.type != (is_short ? ThriftType::i32 : ThriftType::i64)) return false;
            switch (field.number) {
            case 1: chunk.type = reader_.integer(); return true;
            case 4: chunk.codec = reader_.integer(); return true;
            case 5: chunk.levels = reader_.integer(); return true; // num_values
            case 7: chunk.size = reader_.integer(); return true;   // total_compressed_size
            case 9: data = reader_.integer(); return true;         // data_page_offset
            case 11: dictionary = reader_.integer(); return true;  // dictionary_page_offset
            default: return false;
            }
        });
        chunk.begin = dictionary > 0 && dictionary < data ? dictionary : data;
        if (std::min({chunk.begin, chunk.size, chunk.levels, chunk.codec, chunk.type}) < 0 || path.empty() ||
            chunk.codec > last_codec || chunk.type > last_type)
            refuse();
        if (is_first) paths_.push_back(path);
        else if (!std::ranges::equal(path, paths_[index]) || chunk.type != chunks_.all[index].type) refuse();
        chunks_.all.push_back(chunk);
    }

    // SizeStatistics.
    void read_sizes(ColumnChunk& chunk) {
        reader_.each_field([&](const ThriftField& field) {
            const bool is_repetition = field.number == 2; // repetition_level_histogram
            if ((!is_repetition && field.number != 3) || field.type != ThriftType::list) return false;
            const ThriftReader::Elements found = reader_.elements();
            for (std::uint64_t i = 0; i < found.count; ++i) reader_.skip(found.type, true);
            (is_repetition ? chunk.repetitions : chunk.definitions) = static_cast<std::int64_t>(found.count);
            return true;
        });
    }

    Cursor cursor_;
    ThriftReader reader_;
    Chunks chunks_;
    std::vector<Bytes> paths_; // of the columns of the first row group, as Thrift
};

} // namespace

Chunks read_chunks(Bytes footer) { return FooterReader(footer).read(); }

} // namespace headrace::parquet

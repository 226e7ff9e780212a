#pragma once

#include <deque>

#include "core/parquet/delta.hpp"
#include "core/parquet/footer.hpp"
#include "core/parquet/page.hpp"
#include "core/parquet/recurring.hpp"

namespace headrace::parquet {

/// What is expected of a column.
struct ColumnForm {
    ValueForm values;
    LevelForm levels;
    bool verify = true;                              ///< Whether to check the checksums of pages that have one.
    std::optional<std::vector<std::byte>> fill = {}; ///< The number or text in place of a null.
    RecurringLimits recurring = {};
};

/// Reads one column of adjacent row groups in order: numbers, truth values, text or bytes, or lists of those that are
/// not nested, in all encodings that writers use, uncompressed or in Snappy, Zstandard or GZIP. A null in place of a
/// list is an empty one; other nulls only if there is a value for them. Throws FormatError for everything else, damage
/// included; the reader is of no use then. The file may change meanwhile.
class ColumnReader {
  public:
    /// Throws `structure` for a codec that is not decoded here, or a chunk outside the file.
    ColumnReader(std::shared_ptr<Pool> pool, Bytes file, std::vector<ColumnChunk> chunks, const ColumnForm& form);

    struct Rows {
        std::size_t rows = 0;
        std::size_t values = 0; ///< As many as rows where there are no lists.
        Pool::Block numbers;    ///< Of `form.values.wanted` bytes each.
        StringBlocks texts;     ///< Of text instead.
        Pool::Block codes;      ///< Of text that recurs: int32, the number in `texts` of each value.
        Pool::Block offsets;    ///< Of lists: int64, one more than rows, where the values of each begin.
    };

    /// The next `rows` rows. Memory grows with the values that the pages hold, whatever numbers the file declares.
    [[nodiscard]] Rows read(std::size_t rows);

  private:
    // A page whose values are not all used.
    struct Page {
        Pool::Block decoded; // if the values are not in the file
        Bytes rest;          // plain values that are left
        HybridReader codes;
        std::shared_ptr<const Dictionary> dictionary; // if `codes` are the values
        std::unique_ptr<DeltaReader> deltas;          // the values as differences
        std::unique_ptr<DeltaTexts> delta_texts;      // the same of texts
        std::size_t stride = 0;                       // of byte streams: values that the page has
        PageRows rows;                                // where there are no lists: only nulls
        std::size_t next_row = 0;                     // of the rows that begin here
        std::size_t next_null = 0;
        std::uint64_t values = 0;
        std::uint64_t used = 0;

        // Those of the values before `end` that have not been asked for.
        [[nodiscard]] std::span<const std::uint32_t> nulls_until(std::uint64_t end) noexcept;
        [[nodiscard]] bool is_used_up() const noexcept { return used == values && next_row == rows.starts.size(); }
    };

    struct Decoded {
        Pool::Block block;
        Bytes bytes;
    };

    void next_chunk();
    void load_page();
    void load_dictionary(const PageHeader& header, Bytes stored);
    void load_values(const PageHeader& header, Bytes stored);
    void count_rows(Page& page, const PageHeader& header, Bytes repetition, Bytes definition);
    void open_values(Page& page, const PageHeader& header) const;
    void write_present(Page& page, std::size_t count, std::byte* to) const;
    void open_differences(Page& page, const PageHeader& header, std::uint64_t present) const;
    void open_bits(Page& page, const PageHeader& header, std::uint64_t present) const;
    [[nodiscard]] Decoded decode(Bytes stored, std::uint64_t size, bool in_place) const;
    [[nodiscard]] bool has_rows(std::size_t rows) const noexcept;
    [[nodiscard]] std::uint64_t find_rows(std::size_t rows, Pool::Block& offsets);
    void write_numbers(std::uint64_t count, std::byte* to);
    void read_texts(Rows& found);
    [[nodiscard]] bool may_recur(std::uint64_t count) const noexcept;
    template <typename To> void add_texts(std::uint64_t count, To& to);
    template <typename To> static void add_present(Page& page, std::size_t count, To& to);
    void drop_used();

    std::shared_ptr<Pool> pool_;
    Bytes file_;
    std::vector<ColumnChunk> chunks_;
    ColumnForm form_;
    std::size_t chunk_ = 0; // the number of the one after the one at hand
    Cursor pages_left_{Bytes{}};
    std::int64_t codec_ = 0, type_ = 0;
    std::uint64_t levels_left_ = 0, rows_left_ = 0; // of the chunk at hand, in pages that are not loaded
    bool is_first_page_ = true, ends_empty_ = false;
    std::shared_ptr<const Dictionary> dictionary_; // of the chunk at hand
    std::shared_ptr<const Dictionary> bits_;       // of truth values: 0 and 1
    std::deque<Page> pages_;
    std::uint64_t loaded_ = 0; // rows that begin in `pages_`, or values where there are no lists
};

} // namespace headrace::parquet

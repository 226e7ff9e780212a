#pragma once

#include <array>
#include <vector>

#include "core/base/cursor.hpp"

namespace headrace::parquet {

/// Bytes that must be readable behind packed numbers.
inline constexpr std::size_t packed_slack = 8;

/// Decodes numbers of up to 32 bits in runs: of one value, or packed. Source: Parquet's Encodings.md, "Run Length
/// Encoding / Bit-Packing Hybrid". Throws FormatError{truncated} or {structure} where the bytes end before the numbers
/// do.
class HybridReader {
  public:
    HybridReader() = default;

    /// `packed_slack` bytes behind `bytes` must be readable. Throws `structure` for a width of more than 32.
    HybridReader(Bytes bytes, unsigned width);

    /// Reads bits that are packed without runs.
    [[nodiscard]] static HybridReader of_bits(Bytes bytes);

    /// A run of equal numbers, or of packed ones: eight in `width` bytes.
    struct Run {
        std::uint64_t count = 0; ///< Of packed numbers a multiple of eight; the last ones may be padding.
        std::uint32_t value = 0;
        const std::byte* packed = nullptr; ///< Null: all are `value`.
    };

    /// The next run, never an empty one.
    [[nodiscard]] Run next_run();

    /// Up to `most` of the next numbers, at least one. Valid until the next call.
    [[nodiscard]] std::span<const std::uint32_t> take(std::size_t most);

  private:
    void refill();

    Cursor cursor_{Bytes{}};
    unsigned width_ = 0;
    Run run_;
    std::size_t at_ = 0, end_ = 0; // of the numbers in `block_` that are left
    static constexpr std::size_t block_size = 256;
    std::array<std::uint32_t, block_size> block_{};
};

/// Unpacks groups of eight numbers of `width` bits (at most 32). `packed_slack` bytes behind them must be readable.
void unpack(const std::byte* from, unsigned width, std::span<std::uint32_t> to) noexcept;

/// How the levels of a column say that a value is there.
struct LevelForm {
    std::uint32_t most = 0;  ///< The definition level of a value.
    std::int32_t empty = -1; ///< That of an empty list; -1 where there are no lists.
    [[nodiscard]] bool has_lists() const noexcept { return empty >= 0; }
};

/// Whether all of the first `count` levels are `most`. Throws `truncated` or `structure` if there are fewer.
[[nodiscard]] bool are_all(Bytes levels, std::uint32_t most, std::uint64_t count);

/// Appends the positions of zeros among the first `count` levels of one bit. Throws `truncated` or `structure` if there
/// are fewer, or other levels than 0 and 1.
void find_zeros(Bytes levels, std::uint64_t count, std::vector<std::uint32_t>& to);

/// The same of levels below `most`, where higher ones do not exist.
void find_below(Bytes levels, std::uint32_t most, std::uint64_t count, std::vector<std::uint32_t>& to);

/// The rows of lists in a page.
struct PageRows {
    std::vector<std::uint32_t> starts; ///< Among the page's values, of each row that begins in it.
    std::vector<std::uint32_t> nulls;  ///< Which of the page's values are nulls.
    std::uint64_t values = 0; ///< In the page. Those before the first start belong to the row of the page before.
    bool ends_empty = false;  ///< Whether the last row is an empty list.
};

/// Reads the levels of a page of lists that are not nested. A null in place of a list is an empty list. Throws
/// `structure` for values after an empty list, or levels that do not exist.
void read_rows(Bytes repetition, Bytes definition, std::uint64_t count, const LevelForm& form, PageRows& rows);

} // namespace headrace::parquet

#pragma once

#include "core/base/pool.hpp"
#include "core/parquet/levels.hpp"
#include "core/text/strings.hpp"

namespace headrace::parquet {

/// What a column stores, and what its values become.
struct ValueForm {
    std::size_t stored = 0; ///< Bytes of a number in the file, 4 or 8; 1: truth values, of one bit; 0: text or bytes.
    std::size_t wanted = 0; ///< Bytes of a number in the result: as many as stored; 1 or 2 of 4, where higher bits are
                            ///< dropped, as Arrow does; 8 of 4, where the number is signed.
    [[nodiscard]] bool is_text() const noexcept { return stored == 0; }
    [[nodiscard]] bool is_bit() const noexcept { return stored == 1; }
};

/// Bytes that must be readable behind the bytes of a page.
inline constexpr std::size_t page_slack = 64;

/// The dictionary of a column.
class Dictionary {
  public:
    /// Reads `count` plain values from `page`, which stays. Throws FormatError{structure} if it holds fewer.
    Dictionary(Pool::Block page, std::size_t size, std::size_t count, const ValueForm& form);

    /// Writes the numbers with these codes, `wanted` bytes each. Throws `structure` for a code without a value.
    void write(std::span<const std::uint32_t> codes, std::byte* to) const;

    /// Adds the texts with these codes. Throws `structure` for a code without a value.
    void add(std::span<const std::uint32_t> codes, StringsBuilder& to) const;

    /// Throws `structure` for a code without a value.
    void check(std::span<const std::uint32_t> codes) const;

    /// The text with this code, which is below count().
    [[nodiscard]] Bytes text(std::uint32_t code) const noexcept {
        return {page_.data() + texts_[code].begin, texts_[code].size};
    }

    /// How many values there are.
    [[nodiscard]] std::size_t count() const noexcept { return count_; }

    /// Bytes of the longest text.
    [[nodiscard]] std::size_t longest() const noexcept { return longest_; }

    /// Bytes of a text, on average.
    [[nodiscard]] std::size_t average() const noexcept { return count_ == 0 ? 0 : text_bytes_ / count_; }

  private:
    struct Text {
        std::uint32_t begin, size;
    };

    Pool::Block page_;
    ValueForm form_;
    std::size_t count_;
    std::vector<Text> texts_;
    std::size_t longest_ = 0, text_bytes_ = 0;
};

/// Writes plain numbers of `form`, the first `count` of those from `from` on.
void write_plain(const std::byte* from, std::size_t count, const ValueForm& form, std::byte* to) noexcept;

/// Writes numbers of `form` from their low bits.
void write_low_bits(std::span<const std::uint64_t> numbers, const ValueForm& form, std::byte* to) noexcept;

/// Writes numbers of `form` whose bytes are apart, the first `count` of those from `from` on: byte k of a number is
/// `stride` * k bytes behind its first one.
void write_streams(const std::byte* from, std::size_t stride, std::size_t count, const ValueForm& form,
                   std::byte* to) noexcept;

/// Puts `fill`, of 1, 2, 4 or 8 bytes, in place of nulls. The other numbers are in order behind as many as there are
/// nulls: they move to where they belong. `nulls` are in order, and count from `first`.
void spread(std::byte* numbers, std::span<const std::uint32_t> nulls, std::uint64_t first, Bytes fill) noexcept;

/// Adds the next `count` plain texts, and removes them from `from`. `page_slack` bytes behind it must be readable.
/// Throws `structure` where they end before.
void add_plain(Bytes& from, std::size_t count, StringsBuilder& to);

} // namespace headrace::parquet

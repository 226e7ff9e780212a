#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/csv/grid.hpp"
#include "core/csv/layout.hpp"

namespace headrace::csv {

/// Remembers what surrounds or replaces the numbers of a column: leading blanks, plus signs, and words that mark a
/// missing value. Readers of many values at a time take it away as BareCells does.
class Around {
  public:
    static constexpr std::size_t word_bytes = 16, most_words = 4;

    /// A word at the end of its bytes.
    struct Word {
        alignas(word_bytes) std::array<char, word_bytes> bytes{};
        std::uint64_t places = 0; ///< A bit for each byte of the word, four times.
    };

    Around() = default;

    /// `missing`: words that are taken for empty values. None of them may be read as a number.
    explicit Around(const Words* missing) noexcept : missing_(missing) {}

    /// Looks at some values. Returns whether anything is there that was not seen before.
    bool look(const GridColumn& column, std::size_t row, std::size_t count) noexcept;

    /// Whether anything was seen.
    [[nodiscard]] bool any() const noexcept { return any_; }

    [[nodiscard]] std::size_t word_count() const noexcept { return count_; }
    [[nodiscard]] const Word& word(std::size_t i) const noexcept { return words_[i]; }

  private:
    bool look(std::string_view text) noexcept;

    const Words* missing_ = nullptr;
    bool any_ = false;
    std::size_t count_ = 0;
    std::array<Word, most_words> words_{};
};

} // namespace headrace::csv

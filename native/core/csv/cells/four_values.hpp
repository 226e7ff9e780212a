#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/base/cpu.hpp"
#include "core/csv/cells/around.hpp"
#include "core/csv/grid.hpp"
#include "core/csv/plain_number.hpp"

#if defined(HEADRACE_X86)
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // GCC 12 has this complaint about its own header.
#endif
#include <immintrin.h>

#define HEADRACE_FOR_CELLS                                                                                             \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,pclmul,bmi,bmi2,popcnt,lzcnt")))
#define HEADRACE_FOR_CELLS_INLINE HEADRACE_FOR_CELLS HEADRACE_INLINE

namespace headrace::csv {

/// Whether the functions below run on a processor.
[[nodiscard]] inline bool has_vectors(const Cpu& cpu) noexcept { return cpu.vbmi && cpu.pclmul; }

/// Four values of a column of at most 16 bytes each: every one ends with a quarter of a vector. A mask has 16 bits for
/// each; a flag of a value is the top one of them. Nothing here is a branch on what a value looks like, because that
/// is hard to predict.
struct FourValues {
    static constexpr std::size_t count = 4, most_bytes = 16;
    static constexpr std::uint64_t lows = 0x0001000100010001, tops = 0x8000800080008000;

    __m512i bytes;            ///< Outside of `all`, those of other fields.
    std::uint64_t all = 0;    ///< The bytes of the values.
    std::uint64_t digits = 0; ///< Those that are digits.
    std::uint64_t marks = 0;  ///< Those that are the decimal mark.
    std::uint64_t minuses = 0;
    std::uint64_t first = 0;                ///< The first byte of each value.
    std::uint64_t upto = ~std::uint64_t{0}; ///< The bits up to the mark of each value; all 16 if it has none.
    std::uint64_t pluses = 0;               ///< Taken away by `strip`.
    std::uint64_t missing = 0;              ///< Flags of the values that were words, and are empty now.
    std::uint64_t wrong = 0;                ///< Not 0: one of them is neither a plain number nor empty.

    /// The values of rows from `row` on. Returns false if one is longer, or too near the start of the text.
    HEADRACE_FOR_CELLS_INLINE bool load(const GridColumn& column, std::size_t row) noexcept {
        const std::uint32_t* const ends = column.ends + row * column.width;
        const std::uint32_t* const before = column.before + row * column.step;
        const std::uint32_t end[count] = {ends[0], ends[column.width], ends[2 * column.width], ends[3 * column.width]};
        const std::uint32_t size[count] = {end[0] - (before[0] + 1U), end[1] - (before[column.step] + 1U),
                                           end[2] - (before[2 * column.step] + 1U),
                                           end[3] - (before[3 * column.step] + 1U)};
        constexpr std::uint32_t most = most_bytes;
        const std::uint32_t fits = (size[0] - most - 1U) & (size[1] - most - 1U) & (size[2] - most - 1U) &
                                   (size[3] - most - 1U); // The top bit is set unless one is longer.
        if (fits >> 31 == 0 || end[0] < most) return false;
        const char* const begin = column.text - most_bytes;
        bytes = _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(begin + end[0])));
        bytes = _mm512_inserti32x4(bytes, _mm_loadu_si128(reinterpret_cast<const __m128i*>(begin + end[1])), 1);
        bytes = _mm512_inserti32x4(bytes, _mm_loadu_si128(reinterpret_cast<const __m128i*>(begin + end[2])), 2);
        bytes = _mm512_inserti32x4(bytes, _mm_loadu_si128(reinterpret_cast<const __m128i*>(begin + end[3])), 3);
        all = places_of(size[0]) | places_of(size[1]) << 16 | places_of(size[2]) << 32 | places_of(size[3]) << 48;
        return true;
    }

    /// Takes away what is around the values: after `load`, before `split`. What has other things around it is wrong.
    HEADRACE_FOR_CELLS_INLINE void strip(const Around& around) noexcept {
        const std::uint64_t blanks = _mm512_mask_cmpeq_epi8_mask(all, bytes, _mm512_set1_epi8(' ')) |
                                     _mm512_mask_cmpeq_epi8_mask(all, bytes, _mm512_set1_epi8('\t'));
        const std::uint64_t inner = blanks & ~tops; // The sum carries through the blanks from the first byte on.
        all &= ~(inner & ~(inner + (all & ~(all << 1 & ~lows))));
        for (std::size_t k = 0; k < around.word_count(); ++k) {
            const Around::Word& word = around.word(k);
            const __m512i wanted =
                _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(word.bytes.data())));
            const std::uint64_t same = _mm512_cmpeq_epi8_mask(bytes, wanted) & word.places;
            missing |= tops & ~flags_of((same ^ all) | (all ^ word.places));
        }
        all &= ~((missing - (missing >> 15)) | missing);
        pluses = _mm512_mask_cmpeq_epi8_mask(all & ~(all << 1 & ~lows) & ~tops, bytes, _mm512_set1_epi8('+'));
        all &= ~pluses;
    }

    /// Finds the parts of the numbers.
    template <bool has_mark> HEADRACE_FOR_CELLS_INLINE void split(__m512i mark) noexcept {
        const __m512i values = _mm512_sub_epi8(bytes, _mm512_set1_epi8('0'));
        digits = _mm512_mask_cmple_epu8_mask(all, values, _mm512_set1_epi8(9));
        first = all & ~(all << 1 & ~lows);
        minuses = _mm512_mask_cmpeq_epi8_mask(first, bytes, _mm512_set1_epi8('-'));
        wrong = (tops & all & ~flags_of(digits)) | (minuses & pluses << 1);
        const std::uint64_t rest = all & ~(digits | minuses);
        if constexpr (has_mark) {
            marks = _mm512_mask_cmpeq_epi8_mask(all, bytes, mark);
            const std::uint64_t ended = marks | tops, lower = ended - lows;
            upto = ended ^ lower;
            // One mark, with a digit behind it.
            const std::uint64_t before_digits = digits >> 1 & ~tops;
            wrong |= (rest & ~(marks & before_digits)) | (ended & lower & marks);
        } else {
            wrong |= rest;
        }
    }

    /// Flags of the values that have a bit in a mask.
    static std::uint64_t flags_of(std::uint64_t mask) noexcept { return (((mask & ~tops) + ~tops) | mask) & tops; }

    /// The values that are empty.
    [[nodiscard]] std::uint64_t empty() const noexcept { return tops & ~all; }

    /// Those with a decimal mark.
    [[nodiscard]] std::uint64_t real() const noexcept { return tops & ~upto; }

  private:
    static std::uint64_t places_of(std::uint32_t size) noexcept { return (std::uint64_t{0xFFFF0000} >> size) & 0xFFFF; }
};

/// The words of truth values, all of which are compared at once.
class TruthWords {
  public:
    static constexpr unsigned yes = 0x0F; ///< Places of those that mean true.
    static constexpr unsigned no = 0xF0;  ///< Of those that mean false.

    HEADRACE_FOR_CELLS TruthWords() noexcept {
        alignas(64) static constexpr std::uint64_t words[] = {word_of("True"),   word_of("true"),  word_of("TRUE"),
                                                              ~std::uint64_t{0}, word_of("False"), word_of("false"),
                                                              word_of("FALSE"),  ~std::uint64_t{0}};
        words_ = _mm512_load_si512(words);
    }

    /// The place of the value among them, as a bit; 0 if it is none of them.
    [[nodiscard]] HEADRACE_FOR_CELLS_INLINE unsigned find(const char* at, std::size_t size) const noexcept {
        constexpr std::size_t longest = 5;
        const auto all = static_cast<__mmask16>(_bzhi_u32(0xFFFF, static_cast<unsigned>(std::min(size, longest + 1))));
        // A value that ends in zeros has the bytes of a shorter word.
        const unsigned long_enough = size == longest ? unsigned{no} : size == longest - 1 ? unsigned{yes} : 0U;
        return _mm512_cmpeq_epi64_mask(_mm512_broadcastq_epi64(_mm_maskz_loadu_epi8(all, at)), words_) & long_enough;
    }

  private:
    __m512i words_;
};

} // namespace headrace::csv
#endif

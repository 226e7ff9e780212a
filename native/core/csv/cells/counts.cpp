#include "core/csv/cells/counts.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/csv/cells/four_values.hpp"
#include "core/csv/cells/narrow_value.hpp"
#include "core/csv/plain_number.hpp"
#include "core/text/decimal.hpp"

namespace headrace::csv {
namespace {

constexpr std::size_t always_exact = 15; // digits of integers that float64 all holds

/// Whether float64 holds the number.
bool is_exact(std::uint64_t value) noexcept {
    return value == 0 || static_cast<int>(std::bit_width(value)) - std::countr_zero(value) <= 53;
}

/// Counts an integer. Returns false if it is not plain.
bool count_whole(const char* at, std::size_t size, bool negative, CellCounts& counts) noexcept {
    std::uint64_t value = 0;
    if (!read_plain_whole<Kind::int64>(at, size, value)) return false;
    ++counts.whole;
    counts.negative += negative;
    counts.wide += !is_exact(negative ? 0 - value : value);
    return true;
}

bool count_plainly(const char* at, std::size_t size, char decimal, CellCounts& counts) noexcept {
    if (size == 0) {
        ++counts.empty;
        return true;
    }
    const std::size_t sign = *at == '-' ? 1 : 0;
    if (size > sign + 1 && at[sign] == '0' && is_digit(at[sign + 1])) return false; // padded
    PlainDecimal number;
    if (!number.read(at, size, decimal)) return count_whole(at, size, sign != 0, counts);
    counts.real += number.fraction != 0;
    counts.whole += number.fraction == 0;
    counts.negative += static_cast<unsigned>(number.fraction == 0) & number.negative;
    return true;
}

/// The same for the value of a row. Also false if it is too near the end of the file.
bool count_in_room(const GridColumn& column, std::size_t row, char decimal, CellCounts& counts) noexcept {
    const char* const at = column.begin(row);
    const bool is_readable = column.size(row) == 0 || column.stop - at >= plain_readable;
    return is_readable && count_plainly(at, column.size(row), decimal, counts);
}

#if defined(HEADRACE_X86)
/// Counts four values. Returns false if one of them takes another way.
HEADRACE_FOR_CELLS_INLINE bool count_four(const GridColumn& column, std::size_t row, __m512i mark, const Around* around,
                                          CellCounts& counts) noexcept {
    constexpr std::uint64_t tops = FourValues::tops;
    FourValues four;
    if (!four.load(column, row)) return false;
    if (around != nullptr) four.strip(*around);
    four.split<true>(mark);
    const std::uint64_t zeros = _mm512_mask_cmpeq_epi8_mask(four.digits, four.bytes, _mm512_set1_epi8('0'));
    const std::uint64_t leading = (four.first & ~four.minuses) | four.minuses << 1;
    const std::uint64_t padded = zeros & leading & (four.digits >> 1 & ~tops);
    const std::uint64_t long_ones = tops & ~FourValues::flags_of(~four.digits); // sixteen digits may not be exact
    if ((four.wrong | padded | long_ones) != 0) return false;
    const auto empty = static_cast<std::uint64_t>(_mm_popcnt_u64(four.empty()));
    const auto real = static_cast<std::uint64_t>(_mm_popcnt_u64(four.real()));
    const std::uint64_t negative = FourValues::flags_of(four.minuses) & ~four.real();
    const auto missing = static_cast<std::uint64_t>(_mm_popcnt_u64(four.missing));
    counts.empty += empty - missing;
    counts.missing += missing;
    counts.real += real;
    counts.whole += FourValues::count - empty - real;
    counts.negative += static_cast<std::uint64_t>(_mm_popcnt_u64(negative));
    return true;
}

/// Counts a value of at most 32 bytes. Returns false if it is not plain.
HEADRACE_FOR_CELLS_INLINE bool count_one(const char* at, std::size_t size, bool is_readable, __m256i mark,
                                         CellCounts& counts) noexcept {
    constexpr std::size_t most = 32;
    if (size > most) return false;
    if (size == 0) {
        ++counts.empty;
        return true;
    }
    const auto all = static_cast<std::uint32_t>(~std::uint64_t{0} << (most - size));
    const __m256i bytes = _mm256_maskz_loadu_epi8(all, at + size - most);
    const std::uint32_t digits =
        _mm256_cmple_epu8_mask(_mm256_sub_epi8(bytes, _mm256_set1_epi8('0')), _mm256_set1_epi8(9));
    const std::uint32_t dashes = _mm256_cmpeq_epi8_mask(bytes, _mm256_set1_epi8('-'));
    const std::uint32_t marks = _mm256_cmpeq_epi8_mask(bytes, mark);
    const std::uint32_t zeros = _mm256_cmpeq_epi8_mask(bytes, _mm256_set1_epi8('0'));
    const std::uint32_t first = _blsi_u32(all);
    const std::uint32_t minus = dashes & first;
    const std::uint32_t leading = minus != 0 ? first << 1 : first;
    std::uint32_t number = all & ~minus; // without the exponent
    const std::uint32_t other = number & ~(digits | marks);
    const bool has_exponent = other != 0;
    if (has_exponent) { // One e, a sign or none, one or two digits.
        const std::uint32_t letter = _blsi_u32(other), after = ~_blsmsk_u32(letter);
        const __m256i lower = _mm256_or_si256(bytes, _mm256_set1_epi8(0x20));
        const std::uint32_t letters = _mm256_cmpeq_epi8_mask(lower, _mm256_set1_epi8('e'));
        const std::uint32_t signs = (dashes | _mm256_cmpeq_epi8_mask(bytes, _mm256_set1_epi8('+'))) & letter << 1;
        const std::uint32_t exponent = after & ~signs;
        if ((letters & letter) == 0 || exponent == 0 || (exponent & ~digits) != 0 || _mm_popcnt_u32(exponent) > 2)
            return false;
        number &= ~(letter | after);
    }
    const std::uint32_t own = digits & number, mine = marks & number;
    const std::uint32_t beside = own << 1 | own >> 1;
    const std::uint32_t wrong = (mine & ~beside) | (mine & (mine - 1)) | (zeros & leading & own >> 1);
    if (wrong != 0 || own == 0) return false;
    if (has_exponent || mine != 0) {
        ++counts.real;
        return true;
    }
    if (std::cmp_greater(_mm_popcnt_u32(own), always_exact))
        return is_readable && count_whole(at, size, minus != 0, counts);
    ++counts.whole;
    counts.negative += minus != 0;
    return true;
}

HEADRACE_FOR_CELLS std::size_t count_by_vbmi(const GridColumn& column, std::size_t first, std::size_t rows,
                                             char decimal, CellCounts& counts, Around* seen) noexcept {
    constexpr unsigned most_failures = 4;
    const Around* around = seen != nullptr && seen->any() ? seen : nullptr;
    const __m512i mark = _mm512_set1_epi8(decimal);
    unsigned failures = 0;
    for (std::size_t i = first; i < rows;) {
        if (failures != most_failures && rows - i >= FourValues::count) {
            if (count_four(column, i, mark, around, counts)) {
                i += FourValues::count;
                continue;
            }
            if (seen != nullptr && seen->look(column, i, FourValues::count)) {
                around = seen;
                continue; // Each time, something else was seen.
            }
            ++failures;
        }
        for (const std::size_t stop = std::min(rows, i + FourValues::count); i < stop; ++i) {
            const char* const at = column.begin(i);
            const bool is_readable = column.stop - at >= plain_readable;
            if (!count_one(at, column.size(i), is_readable, _mm512_castsi512_si256(mark), counts)) return i;
        }
    }
    return rows;
}

HEADRACE_FOR_CELLS std::size_t count_truths_by_vbmi(const GridColumn& column, std::size_t first, std::size_t rows,
                                                    CellCounts& counts) noexcept {
    const TruthWords words;
    std::size_t i = first;
    while (i < rows && words.find(column.begin(i), column.size(i)) != 0) ++i;
    counts.boolean += i - first;
    return i;
}

/// Four values of up to 16 bytes with AVX2: the masks of FourValues, in halves.
class HalvedValues {
  public:
    static constexpr std::size_t count = 4;

    /// Returns false if one of the values is longer, or too near the start of the text.
    HEADRACE_FOR_NARROW HEADRACE_INLINE bool load(const GridColumn& column, std::size_t row) noexcept {
        const char* const ends[count] = {end_of(column, row), end_of(column, row + 1), end_of(column, row + 2),
                                         end_of(column, row + 3)};
        const std::size_t sizes[count] = {column.size(row), column.size(row + 1), column.size(row + 2),
                                          column.size(row + 3)};
        constexpr auto least = static_cast<std::ptrdiff_t>(narrow_bytes);
        if (std::max({sizes[0], sizes[1], sizes[2], sizes[3]}) > narrow_bytes || ends[0] - column.text < least)
            return false;
        low_ = join(ends[0], ends[1]);
        high_ = join(ends[2], ends[3]);
        for (std::size_t k = 0; k < count; ++k) all |= (0xFFFF0000ULL >> sizes[k] & 0xFFFF) << narrow_bytes * k;
        return true;
    }

    /// The lanes that equal a byte.
    [[nodiscard]] HEADRACE_FOR_NARROW HEADRACE_INLINE std::uint64_t equal(__m256i byte) const noexcept {
        return lanes_of(_mm256_cmpeq_epi8(low_, byte), _mm256_cmpeq_epi8(high_, byte));
    }

    [[nodiscard]] HEADRACE_FOR_NARROW HEADRACE_INLINE std::uint64_t digits() const noexcept {
        const __m256i zero = _mm256_set1_epi8('0'), nine = _mm256_set1_epi8(9);
        const __m256i low = _mm256_max_epu8(_mm256_sub_epi8(low_, zero), nine);
        const __m256i high = _mm256_max_epu8(_mm256_sub_epi8(high_, zero), nine);
        return lanes_of(_mm256_cmpeq_epi8(low, nine), _mm256_cmpeq_epi8(high, nine));
    }

    std::uint64_t all = 0; ///< The lanes of the values.

  private:
    static const char* end_of(const GridColumn& column, std::size_t row) noexcept {
        return column.begin(row) + column.size(row);
    }
    HEADRACE_FOR_NARROW HEADRACE_INLINE static __m256i join(const char* first, const char* second) noexcept {
        const auto* const low = reinterpret_cast<const __m128i*>(first - narrow_bytes);
        const auto* const high = reinterpret_cast<const __m128i*>(second - narrow_bytes);
        return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)), _mm_loadu_si128(high), 1);
    }
    HEADRACE_FOR_NARROW HEADRACE_INLINE static std::uint64_t lanes_of(__m256i low, __m256i high) noexcept {
        const std::uint64_t upper = static_cast<std::uint32_t>(_mm256_movemask_epi8(high));
        return upper << 32 | static_cast<std::uint32_t>(_mm256_movemask_epi8(low));
    }

    __m256i low_, high_; // outside of `all`, other fields
};

/// As count_four.
HEADRACE_FOR_NARROW HEADRACE_INLINE bool count_halved(const GridColumn& column, std::size_t row, __m256i mark,
                                                      CellCounts& counts) noexcept {
    constexpr std::uint64_t lows = FourValues::lows, tops = FourValues::tops;
    HalvedValues four;
    if (!four.load(column, row)) return false;
    const std::uint64_t all = four.all, digits = four.digits() & all, marks = four.equal(mark) & all;
    const std::uint64_t first = all & ~(all << 1 & ~lows);
    const std::uint64_t minuses = four.equal(_mm256_set1_epi8('-')) & first;
    const std::uint64_t behind = digits >> 1 & ~tops; // lanes before a digit
    const std::uint64_t ended = marks | tops, lower = ended - lows;
    const std::uint64_t leading = (first & ~minuses) | minuses << 1;
    const std::uint64_t padded = four.equal(_mm256_set1_epi8('0')) & leading & behind;
    const std::uint64_t long_ones = tops & ~FourValues::flags_of(~digits); // sixteen digits may not be exact
    const std::uint64_t no_digits = tops & all & ~FourValues::flags_of(digits);
    const std::uint64_t other = all & ~(digits | minuses) & ~(marks & behind);
    if ((padded | long_ones | no_digits | other | (ended & lower & marks)) != 0) return false;
    const std::uint64_t is_real = tops & ~(ended ^ lower);
    const auto empty = static_cast<std::uint64_t>(std::popcount(tops & ~all));
    const auto real = static_cast<std::uint64_t>(std::popcount(is_real));
    counts.empty += empty;
    counts.real += real;
    counts.whole += HalvedValues::count - empty - real;
    counts.negative += static_cast<std::uint64_t>(std::popcount(FourValues::flags_of(minuses) & ~is_real));
    return true;
}

HEADRACE_FOR_NARROW std::size_t count_by_avx2(const GridColumn& column, std::size_t first, std::size_t rows,
                                              char decimal, CellCounts& counts) noexcept {
    constexpr std::size_t together = HalvedValues::count;
    constexpr unsigned most_failures = 16;
    const __m256i mark = _mm256_set1_epi8(decimal);
    unsigned failures = 0;
    for (std::size_t i = first; i < rows;) {
        if (failures != most_failures && rows - i >= together) {
            if (count_halved(column, i, mark, counts)) {
                i += together;
                continue;
            }
            ++failures;
        }
        for (const std::size_t stop = std::min(rows, i + together); i < stop; ++i)
            if (!count_in_room(column, i, decimal, counts)) return i;
    }
    return rows;
}
#endif

} // namespace

std::size_t count_numbers(const GridColumn& column, std::size_t first, std::size_t rows, char decimal,
                          CellCounts& counts, [[maybe_unused]] Around* around,
                          [[maybe_unused]] const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (has_vectors(cpu)) return count_by_vbmi(column, first, rows, decimal, counts, around);
    if (cpu.avx2 && cpu.bmi2) return count_by_avx2(column, first, rows, decimal, counts);
#endif
    for (std::size_t i = first; i < rows; ++i)
        if (!count_in_room(column, i, decimal, counts)) return i;
    return rows;
}

std::size_t count_truths(const GridColumn& column, std::size_t first, std::size_t rows, CellCounts& counts,
                         [[maybe_unused]] const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (has_vectors(cpu)) return count_truths_by_vbmi(column, first, rows, counts);
#endif
    for (std::size_t i = first; i < rows; ++i) {
        const char* const at = column.begin(i);
        std::uint64_t value = 0;
        if (column.stop - at < plain_readable || !read_plain_truth(at, column.size(i), value)) return i;
        ++counts.boolean;
    }
    return rows;
}

} // namespace headrace::csv

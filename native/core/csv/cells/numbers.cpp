#include "core/csv/cells/numbers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/csv/cells/four_values.hpp"
#include "core/csv/cells/narrow_value.hpp"
#include "core/csv/plain_number.hpp"
#include "core/text/decimal.hpp"

namespace headrace::csv {
namespace {

constexpr std::uint64_t largest_exact = std::uint64_t{1} << 53; // of the integers that float64 all holds

template <Kind kind> void store(std::byte* to, std::uint64_t bits) noexcept {
    if constexpr (kind == Kind::boolean) *to = static_cast<std::byte>(bits);
    else if constexpr (kind == Kind::float32) store_le<std::uint32_t>(to, static_cast<std::uint32_t>(bits));
    else store_le<std::uint64_t>(to, bits);
}

template <Kind kind> constexpr std::size_t item_of() noexcept {
    return kind == Kind::boolean ? 1 : kind == Kind::float32 ? sizeof(float) : sizeof(std::uint64_t);
}

/// The first row so near the end of the file that values may not be read with the bytes behind them.
std::size_t first_near_end(const GridColumn& column, std::size_t first, std::size_t rows) noexcept {
    while (rows > first && column.stop - column.begin(rows - 1) < plain_readable) --rows;
    return rows;
}

template <Kind kind>
bool read_plain(const char* at, std::size_t size, [[maybe_unused]] char decimal, std::uint64_t& bits) noexcept {
    if constexpr (kind == Kind::int64 || kind == Kind::uint64) {
        return read_plain_whole<kind>(at, size, bits);
    } else if constexpr (kind == Kind::boolean) {
        return read_plain_truth(at, size, bits);
    } else {
        PlainDecimal number;
        if (!number.read(at, size, decimal)) return false;
        if constexpr (kind == Kind::float64) {
            double value = 0;
            if (!number.round(value)) return false;
            bits = std::bit_cast<std::uint64_t>(value);
        } else {
            float value = 0;
            if (!number.round(value)) return false;
            bits = std::bit_cast<std::uint32_t>(value);
        }
        return true;
    }
}

template <Kind kind>
std::size_t read_plainly(const GridColumn& column, std::size_t first, std::size_t rows, const NumberForm& form,
                         std::byte* to) noexcept {
    for (std::size_t i = first; i < rows; ++i, to += item_of<kind>()) {
        const std::size_t size = column.size(i);
        std::uint64_t bits = form.empty.value_or(0);
        const bool is_empty = size == 0 && form.empty.has_value();
        if (!is_empty && !read_plain<kind>(column.begin(i), size, form.decimal, bits)) return i;
        store<kind>(to, bits);
    }
    return rows;
}

#if defined(HEADRACE_X86)
constexpr std::size_t narrow = narrow_bytes, wide = 32; // bytes of vectors

/// A value of at most 16 bytes. Empty ones are wrong.
template <bool has_mark>
HEADRACE_FOR_CELLS_INLINE void read_narrow(const char* at, std::size_t size, __m128i mark, VectorNumber& out) noexcept {
    const auto all = static_cast<__mmask16>(0xFFFFU << (narrow - size));
    __m128i bytes = _mm_maskz_loadu_epi8(all, at + size - narrow);
    const std::uint32_t minuses = _mm_cmpeq_epi8_mask(bytes, _mm_set1_epi8('-'));
    const std::uint32_t marks = has_mark ? _mm_cmpeq_epi8_mask(bytes, mark) : 0U;
    std::uint32_t below = 0;
    std::uint32_t digits = find_digits<narrow>(all, minuses, marks, below, out);
    if constexpr (has_mark) { // The digits before the mark move to its place.
        bytes = _mm_mask_mov_epi8(bytes, static_cast<__mmask16>(below), _mm_bslli_si128(bytes, 1));
        digits = (digits & ~below) | (digits << 1 & below);
    }
    bytes = _mm_maskz_sub_epi8(static_cast<__mmask16>(digits), bytes, _mm_set1_epi8('0'));
    out.wrong |= _mm_cmpgt_epu8_mask(bytes, _mm_set1_epi8(9));
    bytes = _mm_maddubs_epi16(bytes, _mm_set1_epi16(0x010A));  // 10, 1
    bytes = _mm_madd_epi16(bytes, _mm_set1_epi32(0x00010064)); // 100, 1
    bytes = _mm_packus_epi32(bytes, bytes);
    bytes = _mm_madd_epi16(bytes, _mm_set1_epi32(0x00012710)); // 10000, 1
    const auto halves = static_cast<std::uint64_t>(_mm_cvtsi128_si64(bytes));
    out.mantissa = (halves & 0xFFFFFFFF) * 100'000'000 + (halves >> 32);
}

/// A value of at most 32 bytes, of at most 19 digits after zeros.
template <bool has_mark>
HEADRACE_FOR_CELLS_INLINE void read_wide(const char* at, std::size_t size, __m256i mark, VectorNumber& out) noexcept {
    const auto all = static_cast<__mmask32>(~std::uint64_t{0} << (wide - size));
    const char* const begin = at + size - wide;
    __m256i bytes = _mm256_maskz_loadu_epi8(all, begin);
    const std::uint32_t minuses = _mm256_cmpeq_epi8_mask(bytes, _mm256_set1_epi8('-'));
    const std::uint32_t marks = has_mark ? _mm256_cmpeq_epi8_mask(bytes, mark) : 0U;
    std::uint32_t below = 0;
    std::uint32_t digits = find_digits<wide>(all, minuses, marks, below, out);
    if constexpr (has_mark) {
        // From the same registers: the bytes in the file may have changed.
        const __m256i low = _mm256_permute2x128_si256(bytes, bytes, 0x08);
        bytes = _mm256_mask_mov_epi8(bytes, below, _mm256_alignr_epi8(bytes, low, 15));
        digits = (digits & ~below) | (digits << 1 & below);
    }
    bytes = _mm256_maskz_sub_epi8(digits, bytes, _mm256_set1_epi8('0'));
    out.wrong |= _mm256_cmpgt_epu8_mask(bytes, _mm256_set1_epi8(9));
    bytes = _mm256_maddubs_epi16(bytes, _mm256_set1_epi16(0x010A));
    bytes = _mm256_madd_epi16(bytes, _mm256_set1_epi32(0x00010064));
    bytes = _mm256_packus_epi32(bytes, bytes);
    bytes = _mm256_madd_epi16(bytes, _mm256_set1_epi32(0x00012710));
    const auto upper = static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm256_castsi256_si128(bytes)));
    const auto lower = static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm256_extracti128_si256(bytes, 1)));
    const std::uint64_t top = upper >> 32;
    out.mantissa = (top * 100'000'000 + (lower & 0xFFFFFFFF)) * 100'000'000 + (lower >> 32);
    constexpr std::uint64_t most_top = 999; // with 16 digits after it: 19
    out.wrong |= static_cast<std::uint32_t>(upper) | static_cast<std::uint32_t>(top > most_top);
}

/// Returns whether the number is one, and not one that the slower ways must look at. `is_long`: whether numbers of more
/// than 53 bits came before.
template <Kind kind>
HEADRACE_INLINE bool finish(const VectorNumber& number, bool& is_long, std::uint64_t& bits) noexcept {
    const std::uint64_t mantissa = number.mantissa;
    if constexpr (kind == Kind::int64) {
        bits = (mantissa ^ (0 - number.sign)) + number.sign;
        return (mantissa >> 63 | number.wrong) == 0;
    } else if constexpr (kind == Kind::uint64) {
        bits = mantissa;
        return number.wrong == 0 && (number.sign == 0 || mantissa == 0);
    } else if constexpr (kind == Kind::float64) {
        static constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                            1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
        is_long |= (mantissa >= largest_exact) | (number.fraction >= std::size(powers)); // without a branch
        double value = 0;
        bool good = number.wrong == 0;
        if (!is_long) {
            value = static_cast<double>(static_cast<std::int64_t>(mantissa)) / powers[number.fraction];
        } else { // Without a mark, it may be an integer that may not be rounded.
            value = round_any_decimal(mantissa, -std::int64_t{number.fraction});
            good &= (value < static_cast<double>(largest_exact)) & ((number.marks != 0) | (mantissa < largest_exact));
        }
        bits = std::bit_cast<std::uint64_t>(value) | number.sign << 63;
        return good;
    } else {
        float value = 0;
        if (number.wrong != 0 || !round_decimal(mantissa, -std::int64_t{number.fraction}, value)) return false;
        bits = std::bit_cast<std::uint32_t>(value) | static_cast<std::uint32_t>(number.sign) << 31;
        return true;
    }
}

/// A number with an exponent of one to three digits.
template <typename T>
HEADRACE_FOR_CELLS bool read_scientific(const char* at, std::size_t size, __m256i mark, T& value) noexcept {
    constexpr std::size_t most_digits = 3;
    if (size > wide + sizeof(std::uint64_t)) return false;
    const std::size_t taken = std::min(size, sizeof(std::uint64_t));
    std::uint64_t tail = 0;
    std::memcpy(&tail, at + size - taken, taken);
    tail = taken == 0 ? 0 : tail << 8 * (sizeof tail - taken); // What the exponent is follows from these bytes only.
    const auto from_end = [tail](std::size_t k) { return static_cast<char>(tail >> (64 - 8 * k)); };
    std::int64_t exponent = 0, unit = 1;
    std::size_t k = 1;
    for (; k <= most_digits && is_digit(from_end(k)); ++k, unit *= 10) exponent += unit * (from_end(k) - '0');
    if (k == 1) return false;
    const bool negative = from_end(k) == '-';
    if (negative || from_end(k) == '+') ++k;
    if ((from_end(k) | 0x20) != 'e' || k >= size || size - k > wide) return false;
    VectorNumber number;
    read_wide<true>(at, size - k, mark, number);
    exponent = (negative ? -exponent : exponent) - std::int64_t{number.fraction};
    if constexpr (sizeof(T) == sizeof(double)) {
        value = round_any_decimal(number.mantissa, exponent);
        if (number.wrong != 0 || std::isnan(value)) return false;
    } else if (number.wrong != 0 || !round_decimal(number.mantissa, exponent, value)) {
        return false;
    }
    value = number.sign != 0 ? -value : value;
    return true;
}

template <Kind kind>
HEADRACE_FOR_CELLS bool read_other(const char* at, std::size_t size, __m256i mark, std::uint64_t& bits) noexcept {
    if constexpr (kind == Kind::float64) {
        double value = 0;
        if (!read_scientific(at, size, mark, value)) return false;
        bits = std::bit_cast<std::uint64_t>(value);
        return true;
    } else if constexpr (kind == Kind::float32) {
        float value = 0;
        if (!read_scientific(at, size, mark, value)) return false;
        bits = std::bit_cast<std::uint32_t>(value);
        return true;
    }
    return false;
}

/// The rows of a group, and how many groups in a column may be of no use before none is tried.
constexpr std::size_t together = 2 * FourValues::count;
constexpr unsigned most_failures = 4;

/// The mantissas of four values, twice each.
HEADRACE_FOR_CELLS_INLINE __m512i mantissas_of(const FourValues& four, bool has_mark) noexcept {
    __m512i bytes = four.bytes;
    std::uint64_t digits = four.digits;
    if (has_mark) {                                              // The digits before a mark move to its place.
        const std::uint64_t bare = four.upto & FourValues::tops; // no mark: none move
        const std::uint64_t below = four.upto & ~((bare - (bare >> 15)) | bare);
        bytes = _mm512_mask_mov_epi8(bytes, below, _mm512_bslli_epi128(bytes, 1));
        digits = (digits & ~below) | (digits << 1 & below & ~FourValues::lows);
    }
    bytes = _mm512_maskz_sub_epi8(digits, bytes, _mm512_set1_epi8('0'));
    bytes = _mm512_maddubs_epi16(bytes, _mm512_set1_epi16(0x010A));
    bytes = _mm512_madd_epi16(bytes, _mm512_set1_epi32(0x00010064));
    bytes = _mm512_packus_epi32(bytes, bytes);
    bytes = _mm512_madd_epi16(bytes, _mm512_set1_epi32(0x00012710));
    return _mm512_add_epi64(_mm512_mul_epu32(bytes, _mm512_set1_epi64(100'000'000)), _mm512_srli_epi64(bytes, 32));
}

/// Reads eight values of at most 16 bytes. Returns false if any of them takes another way.
template <Kind kind, bool has_empty>
HEADRACE_FOR_CELLS_INLINE bool read_eight(const GridColumn& column, std::size_t row, __m512i mark, std::uint64_t empty,
                                          const Around* around, std::byte* to) noexcept {
    constexpr bool has_mark = kind == Kind::float64;
    constexpr std::uint64_t tops = FourValues::tops;
    FourValues low, high;
    if (!low.load(column, row) || !high.load(column, row + FourValues::count)) return false;
    if (around != nullptr) {
        low.strip(*around);
        high.strip(*around);
    }
    low.split<has_mark>(mark);
    high.split<has_mark>(mark);
    const auto joined = [](std::uint64_t a, std::uint64_t b) HEADRACE_FOR_CELLS {
        return static_cast<__mmask8>(_pext_u64(a, tops) | _pext_u64(b, tops) << FourValues::count);
    };
    std::uint64_t wrong = low.wrong | high.wrong;
    if constexpr (!has_empty) wrong |= low.empty() | high.empty();
    const __mmask8 negative = joined(FourValues::flags_of(low.minuses), FourValues::flags_of(high.minuses));
    const __m512i numbers = _mm512_permutex2var_epi64(
        mantissas_of(low, has_mark), _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0), mantissas_of(high, has_mark));
    __m512i bits;
    if constexpr (kind == Kind::float64) {
        // 2 to the place of the mark gives its place, as the exponent of a float.
        const __m128i places =
            _mm_set_epi64x(static_cast<std::int64_t>(high.upto), static_cast<std::int64_t>(low.upto));
        const __m512d powers =
            _mm512_cvtepi32_pd(_mm256_add_epi32(_mm256_cvtepu16_epi32(places), _mm256_set1_epi32(1)));
        constexpr std::int64_t bias = 1023;
        const __m512i fractions = _mm512_sub_epi64(_mm512_set1_epi64(bias + std::int64_t{FourValues::most_bytes}),
                                                   _mm512_srli_epi64(_mm512_castpd_si512(powers), 52));
        const __m512d tens = _mm512_permutex2var_pd(_mm512_set_pd(1e7, 1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1e0), fractions,
                                                    _mm512_set_pd(1e15, 1e14, 1e13, 1e12, 1e11, 1e10, 1e9, 1e8));
        const __m512d values = _mm512_div_pd(_mm512_cvtepi64_pd(numbers), tens);
        wrong |= _mm512_cmpge_epu64_mask(numbers, _mm512_set1_epi64(static_cast<std::int64_t>(largest_exact)));
        const __m512i sign = _mm512_set1_epi64(std::numeric_limits<std::int64_t>::min());
        bits = _mm512_castpd_si512(values);
        bits = _mm512_mask_or_epi64(bits, negative, bits, sign);
    } else if constexpr (kind == Kind::int64) {
        bits = _mm512_mask_sub_epi64(numbers, negative, _mm512_setzero_si512(), numbers);
    } else {
        bits = numbers;
        wrong |= _mm512_mask_test_epi64_mask(negative, numbers, numbers);
    }
    if (wrong != 0) return false;
    if constexpr (has_empty)
        bits = _mm512_mask_set1_epi64(bits, joined(low.empty(), high.empty()), static_cast<std::int64_t>(empty));
    _mm512_storeu_si512(to, bits);
    return true;
}

/// Reads values one by one. A column stays with the way that reads all of its values once a value has needed it: which
/// values need it is hard to predict.
template <Kind kind, bool has_empty> class Reader {
  public:
    HEADRACE_FOR_CELLS explicit Reader(const NumberForm& form) noexcept
        : mark_(_mm256_set1_epi8(form.decimal)),
          empty_(form.empty.value_or(0)) {}

    /// Returns false if a value is not plain.
    HEADRACE_FOR_CELLS_INLINE bool read(const char* at, std::size_t size, std::byte* to) noexcept {
        constexpr bool has_mark = kind == Kind::float64 || kind == Kind::float32;
        VectorNumber number;
        std::uint64_t bits = 0;
        if constexpr (has_mark) {
            if (is_scientific_ && read_other<kind>(at, size, mark_, bits)) {
                store<kind>(to, bits);
                return true;
            }
        }
        is_wide_ |= size > narrow;
        if (!is_wide_) read_narrow<has_mark>(at, size, _mm256_castsi256_si128(mark_), number);
        else if (size <= wide) read_wide<has_mark>(at, size, mark_, number);
        else number.wrong = 1;
        if constexpr (has_empty) { // An empty cell takes the way of the others, too.
            const std::uint32_t is_empty = size == 0 ? 1 : 0;
            number.wrong &= is_empty - 1;
            number.marks |= is_empty;
        }
        if (!finish<kind>(number, is_long_, bits)) {
            std::uint64_t other = 0;
            if (!has_mark || !read_other<kind>(at, size, mark_, other)) return false;
            bits = other;
            is_scientific_ = true;
        }
        if constexpr (has_empty) bits = size == 0 ? empty_ : bits;
        store<kind>(to, bits);
        return true;
    }

  private:
    __m256i mark_;
    std::uint64_t empty_;
    bool is_wide_ = false;
    bool is_long_ = false;
    bool is_scientific_ = false;
};

template <Kind kind, bool has_empty>
HEADRACE_FOR_CELLS std::size_t read_by_vbmi(const GridColumn& column, std::size_t first, std::size_t rows,
                                            const NumberForm& form, std::byte* to) noexcept {
    [[maybe_unused]] const __m512i mark = _mm512_set1_epi8(form.decimal);
    Reader<kind, has_empty> reader(form);
    unsigned failures = 0;
    const Around* around = form.around != nullptr && form.around->any() ? form.around : nullptr;
    for (std::size_t i = first; i < rows;) {
        if constexpr (kind != Kind::float32) {
            if (around != nullptr && rows - i < together && rows - first >= together) { // The last ones, some again.
                to -= (together - (rows - i)) * item_of<kind>();
                i = rows - together;
            }
            if (failures != most_failures && rows - i >= together) {
                if (read_eight<kind, has_empty>(column, i, mark, form.empty.value_or(0), around, to)) {
                    i += together;
                    to += together * item_of<kind>();
                    continue;
                }
                if (form.around != nullptr && form.around->look(column, i, together)) {
                    around = form.around;
                    continue; // Each time, something else was seen.
                }
                ++failures;
            }
        }
        for (const std::size_t stop = std::min(rows, i + together); i < stop; ++i, to += item_of<kind>())
            if (!reader.read(column.begin(i), column.size(i), to)) return i;
    }
    return rows;
}

HEADRACE_FOR_CELLS std::size_t read_truths_by_vbmi(const GridColumn& column, std::size_t first, std::size_t rows,
                                                   std::optional<std::uint64_t> empty, std::byte* to) noexcept {
    const TruthWords words;
    const auto of_empty = static_cast<std::byte>(empty.value_or(0));
    for (std::size_t i = first; i < rows; ++i, ++to) {
        const std::size_t size = column.size(i);
        const unsigned found = words.find(column.begin(i), size);
        const bool is_empty = size == 0 && empty.has_value();
        if (found == 0 && !is_empty) return i;
        *to = is_empty ? of_empty : static_cast<std::byte>((found & TruthWords::yes) != 0);
    }
    return rows;
}

/// Values of up to 16 bytes without a branch on what they look like; others as above.
template <Kind kind>
HEADRACE_FOR_NARROW std::size_t read_by_avx2(const GridColumn& column, std::size_t first, std::size_t rows,
                                             const NumberForm& form, std::byte* to) noexcept {
    constexpr bool has_mark = kind == Kind::float64 || kind == Kind::float32;
    const __m128i mark = _mm_set1_epi8(form.decimal);
    bool is_long = false;
    for (std::size_t i = first; i < rows; ++i, to += item_of<kind>()) {
        const char* const at = column.begin(i);
        const std::size_t size = column.size(i);
        std::uint64_t bits = 0;
        if (size - 1 < narrow && at + size - column.text >= static_cast<std::ptrdiff_t>(narrow)) [[likely]] {
            VectorNumber number;
            read_narrow_by_avx2<has_mark>(at, size, mark, number);
            if (finish<kind>(number, is_long, bits)) {
                store<kind>(to, bits);
                continue;
            }
        }
        if (size == 0 && form.empty) bits = *form.empty;
        else if (!read_plain<kind>(at, size, form.decimal, bits)) return i;
        store<kind>(to, bits);
    }
    return rows;
}

template <Kind kind>
std::size_t read_by_vbmi(const GridColumn& column, std::size_t first, std::size_t rows, const NumberForm& form,
                         std::byte* to) noexcept {
    return form.empty ? read_by_vbmi<kind, true>(column, first, rows, form, to)
                      : read_by_vbmi<kind, false>(column, first, rows, form, to);
}
#endif

template <Kind kind>
std::size_t read_kind(const GridColumn& column, std::size_t first, std::size_t rows, const NumberForm& form,
                      std::byte* to, [[maybe_unused]] const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (has_vectors(cpu)) {
        if constexpr (kind == Kind::boolean) return read_truths_by_vbmi(column, first, rows, form.empty, to);
        else return read_by_vbmi<kind>(column, first, rows, form, to);
    }
    if constexpr (kind != Kind::boolean) {
        if (cpu.avx2 && cpu.bmi2) return read_by_avx2<kind>(column, first, rows, form, to);
    }
#endif
    return read_plainly<kind>(column, first, rows, form, to);
}

} // namespace

std::size_t read_cells(const GridColumn& column, std::size_t first, std::size_t rows, const NumberForm& form,
                       std::byte* to, const Cpu& cpu) noexcept {
    const std::size_t last = first_near_end(column, first, rows);
    switch (form.kind) {
    case Kind::int64: return read_kind<Kind::int64>(column, first, last, form, to, cpu);
    case Kind::uint64: return read_kind<Kind::uint64>(column, first, last, form, to, cpu);
    case Kind::float64: return read_kind<Kind::float64>(column, first, last, form, to, cpu);
    case Kind::float32: return read_kind<Kind::float32>(column, first, last, form, to, cpu);
    case Kind::boolean: return read_kind<Kind::boolean>(column, first, last, form, to, cpu);
    case Kind::text: break;
    }
    return first;
}

} // namespace headrace::csv

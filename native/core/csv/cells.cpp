#include "core/csv/cells.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/csv/plain_number.hpp"
#include "core/text/decimal.hpp"
#include "core/text/marks.hpp"

#if defined(HEADRACE_X86)
#include <immintrin.h>
#endif

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

/// Copies the content of a quoted field, and of each doubled quote one. Reads and writes up to seven bytes more.
/// Returns the end.
std::byte* copy_undoubled(std::byte* to, const char* from, const char* end, char quote) noexcept {
    const std::uint64_t pattern = plain::ones * static_cast<unsigned char>(quote);
    while (from < end) {
        const auto left = static_cast<std::size_t>(end - from);
        std::uint64_t word = 0;
        std::memcpy(&word, from, sizeof word);
        std::memcpy(to, &word, sizeof word);
        word ^= pattern;
        std::uint64_t quotes = (word - plain::ones) & ~word & plain::tops; // exact up to the first
        if (left < 8) quotes &= (std::uint64_t{1} << 8 * left) - 1;
        const std::size_t copied =
            quotes == 0 ? std::min<std::size_t>(left, 8) : static_cast<std::size_t>(std::countr_zero(quotes)) / 8 + 1;
        to += copied;
        from += copied + (quotes != 0);
    }
    return to;
}

/// The same for long content.
std::byte* copy_long_undoubled(std::byte* to, const char* from, const char* end, char quote) noexcept {
    while (from < end) {
        const auto left = static_cast<std::size_t>(end - from);
        const auto* const found = static_cast<const char*>(std::memchr(from, quote, left));
        const std::size_t copied = found == nullptr ? left : static_cast<std::size_t>(found - from) + 1;
        std::memcpy(to, from, copied);
        to += copied;
        from += copied + (found != nullptr);
    }
    return to;
}

std::byte* copy_plainly(const GridColumn& column, std::size_t rows, std::optional<char> quote, std::byte* to,
                        std::int64_t* ends, std::size_t size) noexcept {
    constexpr std::size_t longest_short = 48, together = 32;
    const std::byte* const begin = to;
    const bool has_quotes = quote.has_value() && column.has_quotes;
    const char mark = quote.value_or('\0');
    for (std::size_t i = 0; i < rows; ++i) {
        const char* const at = column.begin(i);
        const std::size_t length = column.size(i);
        const std::ptrdiff_t left = column.stop - at;
        if (has_quotes && length > 1 && *at == mark) {
            const bool is_short = length <= longest_short && left >= plain_readable + std::ptrdiff_t{longest_short};
            to = (is_short ? copy_undoubled : copy_long_undoubled)(to, at + 1, at + length - 1, mark);
        } else if (length <= together && left >= plain_readable) {
            std::memcpy(to, at, together);
            to += length;
        } else {
            std::memcpy(to, at, length);
            to += length;
        }
        ends[i] = static_cast<std::int64_t>(size + static_cast<std::size_t>(to - begin));
    }
    return to;
}

#if defined(HEADRACE_X86)
#define HEADRACE_FOR_CELLS                                                                                             \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,pclmul,bmi,bmi2,popcnt,lzcnt")))
#define HEADRACE_FOR_CELLS_INLINE HEADRACE_FOR_CELLS HEADRACE_INLINE

/// As between_marks.
HEADRACE_FOR_CELLS_INLINE std::uint64_t parities(std::uint64_t marks) noexcept {
    const __m128i all = _mm_set1_epi8(-1);
    return static_cast<std::uint64_t>(
        _mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<std::int64_t>(marks)), all, 0)));
}

/// Copies the content of a quoted field of more than a block.
HEADRACE_FOR_CELLS std::byte* copy_blocks_undoubled(std::byte* to, const char* from, std::size_t size,
                                                    __m512i mark) noexcept {
    std::uint64_t inside = 0; // all bits set: after the first of two quotes
    while (size != 0) {
        const std::size_t part = std::min(size, block_bytes);
        const std::uint64_t all = _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(part));
        const __m512i bytes = _mm512_maskz_loadu_epi8(all, from);
        const std::uint64_t quotes = _mm512_mask_cmpeq_epi8_mask(all, bytes, mark);
        const std::uint64_t odd = parities(quotes) ^ inside;
        const std::uint64_t kept = all & ~(quotes & ~odd);
        _mm512_storeu_si512(to, _mm512_maskz_compress_epi8(kept, bytes));
        to += _mm_popcnt_u64(kept);
        inside = odd >> (block_bytes - 1) != 0 ? ~std::uint64_t{0} : 0;
        from += part;
        size -= part;
    }
    return to;
}

/// Copies fields without quotes, or whose quotes are text.
HEADRACE_FOR_CELLS std::byte* copy_bare_by_vbmi(const GridColumn& column, std::size_t rows, std::byte* to,
                                                std::int64_t* ends, std::size_t size) noexcept {
    constexpr std::size_t longest = 8 * block_bytes; // of what is copied without a call
    const std::byte* const begin = to;
    for (std::size_t i = 0; i < rows; ++i) {
        const char* const at = column.begin(i);
        const std::size_t length = column.size(i);
        if (length <= block_bytes) {
            const std::uint64_t all = _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(length));
            _mm512_storeu_si512(to, _mm512_maskz_loadu_epi8(all, at));
        } else if (length <= longest) {
            for (std::size_t done = 0; done < length; done += block_bytes) {
                const auto left = static_cast<unsigned>(std::min(length - done, block_bytes));
                const std::uint64_t all = _bzhi_u64(~std::uint64_t{0}, left);
                _mm512_storeu_si512(to + done, _mm512_maskz_loadu_epi8(all, at + done));
            }
        } else {
            std::memcpy(to, at, length);
        }
        to += length;
        ends[i] = static_cast<std::int64_t>(size + static_cast<std::size_t>(to - begin));
    }
    return to;
}

HEADRACE_FOR_CELLS std::byte* copy_by_vbmi(const GridColumn& column, std::size_t rows, char quote, std::byte* to,
                                           std::int64_t* ends, std::size_t size) noexcept {
    const std::byte* const begin = to;
    const __m512i mark = _mm512_set1_epi8(quote);
    for (std::size_t i = 0; i < rows; ++i) {
        const char* const at = column.begin(i);
        const std::size_t length = column.size(i);
        if (length <= block_bytes) { // Whether it is quoted, and has quotes inside, is not branched upon.
            const std::uint64_t all = _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(length));
            const __m512i bytes = _mm512_maskz_loadu_epi8(all, at);
            const std::uint64_t quotes = _mm512_mask_cmpeq_epi8_mask(all, bytes, mark);
            const std::uint64_t opening = quotes & static_cast<std::uint64_t>(length > 1);
            const std::uint64_t content = all & ~(opening | opening << ((length - 1) & (block_bytes - 1)));
            const std::uint64_t doubled = opening != 0 ? quotes & content : 0;
            const std::uint64_t kept = content & ~(doubled & ~parities(doubled));
            _mm512_storeu_si512(to, _mm512_maskz_compress_epi8(kept, bytes));
            to += _mm_popcnt_u64(kept);
        } else if (*at == quote) {
            to = copy_blocks_undoubled(to, at + 1, length - 2, mark);
        } else {
            std::memcpy(to, at, length);
            to += length;
        }
        ends[i] = static_cast<std::int64_t>(size + static_cast<std::size_t>(to - begin));
    }
    return to;
}

/// Digits, perhaps after a minus sign and with a decimal mark among them.
struct VectorNumber {
    std::uint64_t mantissa = 0;
    unsigned fraction = 0; ///< Digits after the mark.
    bool has_mark = false;
    bool negative = false;
};

constexpr std::size_t narrow = 16, wide = 32; // bytes of vectors

/// The lanes of a value that ends with its vector.
template <std::size_t lanes> struct ValueLanes {
    std::uint32_t minus, digits, below;

    /// `marks`: 0 where a mark is no part of a number. Returns false if the characters are not in the right places.
    HEADRACE_FOR_CELLS_INLINE bool find(std::uint32_t all, std::uint32_t minuses, std::uint32_t marks,
                                        VectorNumber& out) noexcept {
        constexpr auto top = static_cast<std::uint32_t>(std::uint64_t{1} << (lanes - 1));
        minus = minuses & all & (0U - all);
        digits = all & ~(minuses | marks);
        below = marks == 0 ? 0 : _blsmsk_u32(marks);
        out.negative = minus != 0;
        out.has_mark = marks != 0;
        out.fraction = static_cast<unsigned>(lanes - 1) - _tzcnt_u32(marks | top);
        // A digit on each side of the mark, and one mark.
        const std::uint32_t around = marks == 0 ? digits : marks & digits << 1 & digits >> 1 & (0U - marks);
        return minuses == minus && around != 0 && (marks & (marks - 1)) == 0;
    }
};

/// A value of at most 16 bytes. Empty ones give false.
template <bool has_mark>
HEADRACE_FOR_CELLS_INLINE bool read_narrow(const char* at, std::size_t size, __m128i mark, VectorNumber& out) noexcept {
    const auto all = static_cast<__mmask16>(0xFFFFU << (narrow - size));
    __m128i bytes = _mm_maskz_loadu_epi8(all, at + size - narrow);
    const std::uint32_t minuses = _mm_cmpeq_epi8_mask(bytes, _mm_set1_epi8('-'));
    const std::uint32_t marks = has_mark ? _mm_cmpeq_epi8_mask(bytes, mark) : 0U;
    ValueLanes<narrow> lanes{};
    const bool in_place = lanes.find(all, minuses, marks, out);
    std::uint32_t digits = lanes.digits;
    if constexpr (has_mark) { // The digits before the mark move to its place.
        bytes = _mm_mask_mov_epi8(bytes, static_cast<__mmask16>(lanes.below), _mm_bslli_si128(bytes, 1));
        digits = (digits & ~lanes.below) | (digits << 1 & lanes.below);
    }
    bytes = _mm_maskz_sub_epi8(static_cast<__mmask16>(digits), bytes, _mm_set1_epi8('0'));
    const bool are_digits = _mm_cmpgt_epu8_mask(bytes, _mm_set1_epi8(9)) == 0;
    bytes = _mm_maddubs_epi16(bytes, _mm_set1_epi16(0x010A));  // 10, 1
    bytes = _mm_madd_epi16(bytes, _mm_set1_epi32(0x00010064)); // 100, 1
    bytes = _mm_packus_epi32(bytes, bytes);
    bytes = _mm_madd_epi16(bytes, _mm_set1_epi32(0x00012710)); // 10000, 1
    const auto halves = static_cast<std::uint64_t>(_mm_cvtsi128_si64(bytes));
    out.mantissa = (halves & 0xFFFFFFFF) * 100'000'000 + (halves >> 32);
    return in_place && are_digits;
}

/// A value of 1 to 32 bytes, of at most 19 digits after zeros.
template <bool has_mark>
HEADRACE_FOR_CELLS_INLINE bool read_wide(const char* at, std::size_t size, __m256i mark, VectorNumber& out) noexcept {
    const auto all = static_cast<__mmask32>(~std::uint32_t{0} << (wide - size));
    const char* const begin = at + size - wide;
    __m256i bytes = _mm256_maskz_loadu_epi8(all, begin);
    const std::uint32_t minuses = _mm256_cmpeq_epi8_mask(bytes, _mm256_set1_epi8('-'));
    const std::uint32_t marks = has_mark ? _mm256_cmpeq_epi8_mask(bytes, mark) : 0U;
    ValueLanes<wide> lanes{};
    const bool in_place = lanes.find(all, minuses, marks, out);
    std::uint32_t digits = lanes.digits;
    if constexpr (has_mark) {
        // From the same registers: the bytes in the file may have changed.
        const __m256i low = _mm256_permute2x128_si256(bytes, bytes, 0x08);
        bytes = _mm256_mask_mov_epi8(bytes, lanes.below, _mm256_alignr_epi8(bytes, low, 15));
        digits = (digits & ~lanes.below) | (digits << 1 & lanes.below);
    }
    bytes = _mm256_maskz_sub_epi8(digits, bytes, _mm256_set1_epi8('0'));
    const bool are_digits = _mm256_cmpgt_epu8_mask(bytes, _mm256_set1_epi8(9)) == 0;
    bytes = _mm256_maddubs_epi16(bytes, _mm256_set1_epi16(0x010A));
    bytes = _mm256_madd_epi16(bytes, _mm256_set1_epi32(0x00010064));
    bytes = _mm256_packus_epi32(bytes, bytes);
    bytes = _mm256_madd_epi16(bytes, _mm256_set1_epi32(0x00012710));
    const auto upper = static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm256_castsi256_si128(bytes)));
    const auto lower = static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm256_extracti128_si256(bytes, 1)));
    const std::uint64_t top = upper >> 32;
    out.mantissa = (top * 100'000'000 + (lower & 0xFFFFFFFF)) * 100'000'000 + (lower >> 32);
    constexpr std::uint64_t most_top = 999; // with 16 digits after it: 19
    return in_place && are_digits && (upper & 0xFFFFFFFF) == 0 && top <= most_top;
}

/// Returns false for a number that the slower ways must look at.
template <Kind kind> HEADRACE_FOR_CELLS_INLINE bool finish(const VectorNumber& number, std::uint64_t& bits) noexcept {
    const std::uint64_t mantissa = number.mantissa;
    if constexpr (kind == Kind::int64) {
        bits = number.negative ? 0 - mantissa : mantissa;
        return mantissa >> 63 == 0;
    } else if constexpr (kind == Kind::uint64) {
        bits = mantissa;
        return !number.negative || mantissa == 0;
    } else if constexpr (kind == Kind::float64) {
        static constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                            1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
        double value = 0;
        if (mantissa < largest_exact && number.fraction < std::size(powers)) {
            value = static_cast<double>(static_cast<std::int64_t>(mantissa)) / powers[number.fraction];
        } else if (!number.has_mark || !round_decimal(mantissa, -std::int64_t{number.fraction}, value) ||
                   value >= static_cast<double>(largest_exact)) {
            return false; // Among them are integers that may not be rounded.
        }
        bits = std::bit_cast<std::uint64_t>(value) | std::uint64_t{number.negative} << 63;
        return true;
    } else {
        float value = 0;
        if (!round_decimal(mantissa, -std::int64_t{number.fraction}, value)) return false;
        bits = std::bit_cast<std::uint32_t>(value) | std::uint32_t{number.negative} << 31;
        return true;
    }
}

template <Kind kind, bool has_empty>
HEADRACE_FOR_CELLS std::size_t read_by_vbmi(const GridColumn& column, std::size_t first, std::size_t rows,
                                            const NumberForm& form, std::byte* to) noexcept {
    constexpr bool has_mark = kind == Kind::float64 || kind == Kind::float32;
    const __m128i narrow_mark = _mm_set1_epi8(form.decimal);
    const __m256i wide_mark = _mm256_set1_epi8(form.decimal);
    const std::uint64_t empty = form.empty.value_or(0);
    for (std::size_t i = first; i < rows; ++i, to += item_of<kind>()) {
        const char* const at = column.begin(i);
        const std::size_t size = column.size(i);
        VectorNumber number;
        std::uint64_t bits = 0;
        bool good = false;
        if (size <= narrow) good = read_narrow<has_mark>(at, size, narrow_mark, number);
        else good = size <= wide && read_wide<has_mark>(at, size, wide_mark, number);
        good = good && finish<kind>(number, bits);
        if constexpr (has_empty) {
            if (!good && size != 0) return i;
            bits = size == 0 ? empty : bits;
        } else if (!good) {
            return i;
        }
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
    if constexpr (kind != Kind::boolean)
        if (cpu.vbmi && cpu.pclmul) return read_by_vbmi<kind>(column, first, rows, form, to);
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

std::byte* copy_cells(const GridColumn& column, std::size_t rows, std::optional<char> quote, std::byte* to,
                      std::int64_t* ends, std::size_t size, [[maybe_unused]] const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (cpu.vbmi && cpu.pclmul)
        return quote && column.has_quotes ? copy_by_vbmi(column, rows, *quote, to, ends, size)
                                          : copy_bare_by_vbmi(column, rows, to, ends, size);
#endif
    return copy_plainly(column, rows, quote, to, ends, size);
}

} // namespace headrace::csv

#include "core/csv/cells/texts.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/csv/cells/four_values.hpp"
#include "core/csv/cells/narrow_value.hpp"
#include "core/csv/plain_number.hpp"
#include "core/text/marks.hpp"

namespace headrace::csv {
namespace {

#if defined(HEADRACE_X86)
constexpr std::size_t step = 16; // bytes that are copied at once
/// Copies bytes and returns a bit for each quote among them.
std::uint64_t copy_step(std::byte* to, const char* from, char quote) noexcept {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
    return static_cast<std::uint64_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(quote))));
}
constexpr std::size_t bits_of_a_byte = 1;
#else
constexpr std::size_t step = 8;
std::uint64_t copy_step(std::byte* to, const char* from, char quote) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    std::memcpy(to, &word, sizeof word);
    word ^= plain::ones * static_cast<unsigned char>(quote);
    return (word - plain::ones) & ~word & plain::tops; // exact up to the first
}
constexpr std::size_t bits_of_a_byte = 8;
#endif

/// Copies the content of a quoted field, and of each doubled quote one. Reads and writes up to a step more. Returns the
/// end.
std::byte* copy_undoubled(std::byte* to, const char* from, const char* end, char quote) noexcept {
    while (from < end) {
        const auto left = static_cast<std::size_t>(end - from);
        std::uint64_t quotes = copy_step(to, from, quote);
        if (left < step) quotes &= (std::uint64_t{1} << bits_of_a_byte * left) - 1;
        const std::size_t copied = quotes == 0
                                       ? std::min(left, step)
                                       : static_cast<std::size_t>(std::countr_zero(quotes)) / bits_of_a_byte + 1;
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
/// For each set of bytes among eight, the shuffle that moves them to the front.
constexpr auto moves_to_front = [] {
    std::array<std::array<std::uint8_t, 8>, 256> moves{};
    for (std::size_t set = 0; set < moves.size(); ++set)
        for (std::size_t i = 0, to = 0; i < 8; ++i)
            if ((set >> i & 1) != 0) moves[set][to++] = static_cast<std::uint8_t>(i);
    return moves;
}();

/// Copies the `kept` bytes among 32. Writes up to 32. Returns the end.
HEADRACE_FOR_NARROW HEADRACE_INLINE std::byte* copy_kept(std::byte* to, const char* from, std::uint32_t kept) noexcept {
    for (std::size_t part = 0; part < 32; part += 8) {
        const std::uint32_t set = kept >> part & 0xFF;
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + part));
        const __m128i moves = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(moves_to_front[set].data()));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(bytes, moves));
        to += std::popcount(set);
    }
    return to;
}

/// The odd ones among some bits, and all between one of those and the next bit.
HEADRACE_INLINE std::uint32_t odd_and_between(std::uint32_t bits) noexcept {
    for (unsigned shift = 1; shift < 32; shift *= 2) bits ^= bits << shift;
    return bits;
}

HEADRACE_FOR_NARROW HEADRACE_INLINE std::uint32_t quotes_of(__m256i bytes, __m256i mark) noexcept {
    return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, mark)));
}

/// Copies the content of a quoted field, 32 bytes at a time. Reads and writes up to 32 more. Returns the end.
HEADRACE_FOR_NARROW std::byte* copy_undoubled_by_avx2(std::byte* to, const char* from, std::size_t size,
                                                      __m256i mark) noexcept {
    std::uint32_t inside = 0; // all bits set: after the first of two quotes
    while (size != 0) {
        const std::size_t part = std::min<std::size_t>(size, 32);
        const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
        const std::uint32_t all = _bzhi_u32(~std::uint32_t{0}, static_cast<unsigned>(part));
        const std::uint32_t quotes = quotes_of(bytes, mark) & all;
        if ((quotes | inside) == 0) {
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
            to += part;
        } else {
            const std::uint32_t odd = odd_and_between(quotes) ^ inside;
            to = copy_kept(to, from, all & ~(quotes & ~odd));
            inside = odd >> 31 != 0 ? ~std::uint32_t{0} : 0;
        }
        from += part;
        size -= part;
    }
    return to;
}

HEADRACE_FOR_NARROW std::byte* copy_by_avx2(const GridColumn& column, std::size_t rows, char quote, std::byte* to,
                                            std::int64_t* ends, std::size_t size) noexcept {
    constexpr std::size_t together = 32;
    const std::byte* const begin = to;
    const __m256i mark = _mm256_set1_epi8(quote);
    for (std::size_t i = 0; i < rows; ++i) {
        const char* const at = column.begin(i);
        const std::size_t length = column.size(i);
        const std::ptrdiff_t left = column.stop - at;
        if (length <= together && left >= plain_readable) { // Whether it is quoted, or has quotes, is hard to predict.
            const std::uint32_t all = _bzhi_u32(~std::uint32_t{0}, static_cast<unsigned>(length));
            const std::uint32_t quotes =
                quotes_of(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)), mark) & all;
            const std::uint32_t opening = quotes & static_cast<std::uint32_t>(length > 1);
            const std::uint32_t content = all & ~(opening | opening << ((length - 1) & (together - 1)));
            const std::uint32_t doubled = opening != 0 ? quotes & content : 0;
            to = copy_kept(to, at, content & ~(doubled & ~odd_and_between(doubled)));
        } else if (length > 1 && *at == quote) {
            const bool has_room = left >= static_cast<std::ptrdiff_t>(length) + plain_readable;
            to = has_room ? copy_undoubled_by_avx2(to, at + 1, length - 2, mark)
                          : copy_long_undoubled(to, at + 1, at + length - 1, quote);
        } else {
            std::memcpy(to, at, length);
            to += length;
        }
        ends[i] = static_cast<std::int64_t>(size + static_cast<std::size_t>(to - begin));
    }
    return to;
}

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
#endif

} // namespace

std::byte* copy_cells(const GridColumn& column, std::size_t rows, std::optional<char> quote, std::byte* to,
                      std::int64_t* ends, std::size_t size, [[maybe_unused]] const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (has_vectors(cpu))
        return quote && column.has_quotes ? copy_by_vbmi(column, rows, *quote, to, ends, size)
                                          : copy_bare_by_vbmi(column, rows, to, ends, size);
    if (cpu.avx2 && cpu.bmi2 && quote && column.has_quotes) return copy_by_avx2(column, rows, *quote, to, ends, size);
#endif
    return copy_plainly(column, rows, quote, to, ends, size);
}

} // namespace headrace::csv

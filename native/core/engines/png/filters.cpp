#include "core/engines/png/filters.hpp"

#include <cstdlib>
#include <cstring>

#ifdef HEADRACE_X86
#include <immintrin.h>
#endif

namespace headrace {
namespace {

using Byte = std::uint8_t;

/// The one of left, above and upper left that is nearest to left + above - upper left. Without branches, because a
/// processor cannot predict it.
[[nodiscard]] int paeth(int left, int above, int corner) noexcept {
    const int from_left = above - corner, from_above = left - corner;
    const int to_left = std::abs(from_left), to_above = std::abs(from_above),
              to_corner = std::abs(from_left + from_above);
    const int other = to_above <= to_corner ? above : corner;
    const bool is_left = (to_left <= to_above) & (to_left <= to_corner);
    return is_left ? left : other;
}

/// These three begin at byte `from` of the row, behind the first pixel.
void add_left(const Byte* in, std::size_t from, std::size_t size, std::size_t pixel, Byte* out) {
    for (std::size_t i = from; i < size; ++i) out[i] = static_cast<Byte>(in[i] + out[i - pixel]);
}

void add_average(const Byte* in, std::size_t from, std::size_t size, std::size_t pixel, const Byte* above, Byte* out) {
    for (std::size_t i = from; i < size; ++i) {
        const unsigned sum = out[i - pixel] + (above != nullptr ? unsigned{above[i]} : 0U);
        out[i] = static_cast<Byte>(in[i] + (sum >> 1));
    }
}

void add_paeth(const Byte* in, std::size_t from, std::size_t size, std::size_t pixel, const Byte* above, Byte* out) {
    if (pixel == 1) { // The last pixel need not come back from memory.
        int left = out[from - 1], corner = above[from - 1];
        for (std::size_t i = from; i < size; ++i) {
            left = (in[i] + paeth(left, above[i], corner)) & 0xFF;
            corner = above[i];
            out[i] = static_cast<Byte>(left);
        }
        return;
    }
    for (std::size_t i = from; i < size; ++i) {
        out[i] = static_cast<Byte>(in[i] + paeth(out[i - pixel], above[i], above[i - pixel]));
    }
}

#ifdef HEADRACE_X86
#define HEADRACE_AVX2 __attribute__((target("avx2")))
#define HEADRACE_AVX2_INLINE __attribute__((target("avx2"), always_inline)) inline

using Half = __m128i;

/// Bytes loaded and stored at once for a pixel of this size.
template <std::size_t pixel> constexpr std::size_t lane = pixel <= 2 ? pixel : pixel <= 4 ? 4 : 8;

template <std::size_t pixel> HEADRACE_AVX2_INLINE Half load(const Byte* from) {
    if constexpr (lane<pixel> <= 4) {
        std::int32_t word = 0;
        std::memcpy(&word, from, lane<pixel>);
        return _mm_cvtsi32_si128(word);
    } else {
        return _mm_loadl_epi64(reinterpret_cast<const Half*>(from));
    }
}

/// May write a byte or two behind the pixel, where the next one comes.
template <std::size_t pixel> HEADRACE_AVX2_INLINE void store(Byte* to, Half bytes) {
    if constexpr (lane<pixel> <= 4) {
        const std::int32_t word = _mm_cvtsi128_si32(bytes);
        std::memcpy(to, &word, lane<pixel>);
    } else {
        _mm_storel_epi64(reinterpret_cast<Half*>(to), bytes);
    }
}

/// Each of these undoes a filter from the second pixel on, and returns where it stopped, near the end of the row.
template <std::size_t pixel> HEADRACE_AVX2 std::size_t add_left_fast(const Byte* in, std::size_t size, Byte* out) {
    std::size_t i = pixel;
    for (Half left = load<pixel>(out); i + lane<pixel> <= size; i += pixel) {
        left = _mm_add_epi8(left, load<pixel>(in + i));
        store<pixel>(out + i, left);
    }
    return i;
}

template <std::size_t pixel>
HEADRACE_AVX2 std::size_t add_average_fast(const Byte* in, std::size_t size, const Byte* above, Byte* out) {
    std::size_t i = pixel;
    for (Half left = load<pixel>(out); i + lane<pixel> <= size; i += pixel) {
        const Half up = load<pixel>(above + i);
        const Half odd = _mm_and_si128(_mm_xor_si128(left, up), _mm_set1_epi8(1)); // _mm_avg_epu8 rounds these up.
        left = _mm_add_epi8(_mm_sub_epi8(_mm_avg_epu8(left, up), odd), load<pixel>(in + i));
        store<pixel>(out + i, left);
    }
    return i;
}

template <std::size_t pixel>
HEADRACE_AVX2 std::size_t add_paeth_fast(const Byte* in, std::size_t size, const Byte* above, Byte* out) {
    std::size_t i = pixel;
    Half left = _mm_cvtepu8_epi16(load<pixel>(out)), corner = _mm_cvtepu8_epi16(load<pixel>(above));
    for (; i + lane<pixel> <= size; i += pixel) {
        const Half up = _mm_cvtepu8_epi16(load<pixel>(above + i));
        const Half from_left = _mm_sub_epi16(up, corner), from_above = _mm_sub_epi16(left, corner);
        const Half to_left = _mm_abs_epi16(from_left), to_above = _mm_abs_epi16(from_above);
        const Half to_corner = _mm_abs_epi16(_mm_add_epi16(from_left, from_above));
        const Half other = _mm_blendv_epi8(up, corner, _mm_cmpgt_epi16(to_above, to_corner));
        const Half is_other = _mm_cmpgt_epi16(to_left, _mm_min_epi16(to_above, to_corner));
        const Half sum = _mm_add_epi8(_mm_blendv_epi8(left, other, is_other), _mm_cvtepu8_epi16(load<pixel>(in + i)));
        store<pixel>(out + i, _mm_packus_epi16(sum, sum));
        left = sum; // The upper bytes stay 0.
        corner = up;
    }
    return i;
}

/// The rest of a row of pixels of one size, by the filter's number; see `unfilter_row`.
template <std::size_t pixel>
std::size_t unfilter_fast(Byte filter, const Byte* in, std::size_t size, const Byte* above, Byte* out) {
    if (size < 2 * lane<pixel>) return pixel;
    if (filter == 1) return add_left_fast<pixel>(in, size, out);
    if (above == nullptr) return pixel;
    return filter == 3 ? add_average_fast<pixel>(in, size, above, out) : add_paeth_fast<pixel>(in, size, above, out);
}

/// The first byte that is left to do.
std::size_t unfilter_most(Byte filter, const Byte* in, std::size_t size, std::size_t pixel, const Byte* above,
                          Byte* out) {
    switch (pixel) {
    case 1: return unfilter_fast<1>(filter, in, size, above, out);
    case 2: return unfilter_fast<2>(filter, in, size, above, out);
    case 3: return unfilter_fast<3>(filter, in, size, above, out);
    case 4: return unfilter_fast<4>(filter, in, size, above, out);
    case 6: return unfilter_fast<6>(filter, in, size, above, out);
    case 8: return unfilter_fast<8>(filter, in, size, above, out);
    default: return pixel;
    }
}
#endif

/// Undoes the filter of one row; `above` is null for the first.
void unfilter_row(Byte filter, const Byte* in, std::size_t size, std::size_t pixel, const Byte* above, Byte* out,
                  [[maybe_unused]] const Cpu& cpu) {
    if (above == nullptr && filter == 2) filter = 0; // Nothing is above.
    if (above == nullptr && filter == 4) filter = 1; // Without a row above, left is nearest.
    if (filter == 0) {
        std::memcpy(out, in, size);
        return;
    }
    if (filter == 2) {
        for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<Byte>(in[i] + above[i]);
        return;
    }
    for (std::size_t i = 0; i < pixel; ++i) { // Nothing is to the left of the first pixel.
        const unsigned up = above != nullptr ? above[i] : 0U;
        out[i] = static_cast<Byte>(in[i] + (filter == 1 ? 0U : filter == 3 ? up >> 1 : up));
    }
    std::size_t from = pixel;
#ifdef HEADRACE_X86
    if (cpu.avx2) from = unfilter_most(filter, in, size, pixel, above, out);
#endif
    if (filter == 1) return add_left(in, from, size, pixel, out);
    if (filter == 3) return add_average(in, from, size, pixel, above, out);
    add_paeth(in, from, size, pixel, above, out);
}

} // namespace

void unfilter_png(Bytes stream, const PngRows& rows, std::byte* out, const Cpu& cpu) {
    const std::size_t step = rows.row_bytes + 1;
    if (rows.height == 0 || rows.row_bytes < rows.pixel_bytes || stream.size() % step != 0 ||
        stream.size() / step != rows.height) {
        throw FormatError(Fault::wrong_count, 0, rows.height * step, stream.size());
    }
    const auto* in = reinterpret_cast<const Byte*>(stream.data());
    auto* to = reinterpret_cast<Byte*>(out);
    const Byte* above = nullptr;
    for (std::size_t row = 0; row < rows.height; ++row) {
        const Byte filter = *in;
        if (filter > 4) throw FormatError(Fault::range, row * step, 4, filter);
        unfilter_row(filter, in + 1, rows.row_bytes, rows.pixel_bytes, above, to, cpu);
        above = to;
        in += step;
        to += rows.row_bytes;
    }
}

} // namespace headrace

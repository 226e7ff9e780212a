#include "core/protobuf/short_varints.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/cpu.hpp"

#if defined(HEADRACE_X86)
#include <immintrin.h>
#endif

namespace headrace::proto {

#if defined(HEADRACE_X86)
namespace {

#define HEADRACE_AVX2 __attribute__((target("avx2,bmi,popcnt")))
#define HEADRACE_AVX2_INLINE __attribute__((target("avx2,bmi,popcnt"), always_inline)) inline

constexpr std::size_t word = sizeof(std::uint64_t);
constexpr std::size_t window = 64; // bytes whose marks are read at once
static_assert(window == short_varints_least);

/// One bit for each byte of a window; 1: a varint goes on after it.
HEADRACE_AVX2_INLINE std::uint64_t marks_in(const std::byte* from) {
    const auto* const halves = reinterpret_cast<const __m256i*>(from);
    const auto low = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_loadu_si256(halves)));
    const std::uint64_t high = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_loadu_si256(halves + 1)));
    return high << 32 | low;
}

HEADRACE_AVX2_INLINE void put(std::byte* to, __m256i bytes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
}

/// For each byte whose bits say where varints start: these places.
struct StartPlaces {
    std::array<std::array<std::uint16_t, 8>, 256> of{};

    constexpr StartPlaces() {
        for (std::size_t bits = 0; bits < of.size(); ++bits)
            for (std::size_t bit = 0, found = 0; bit < 8; ++bit)
                if ((bits >> bit & 1) != 0) of.at(bits).at(found++) = static_cast<std::uint16_t>(bit);
    }
};
constexpr StartPlaces start_places;

/// The varints of up to four bytes at the beginning of what is left of a run. First the places of many are found, then
/// these are decoded, so that no step waits for another.
class ShortOnes {
  public:
    /// Finds those from `at` on, where one begins. It ends before a longer one, and after some windows. The 64 bytes
    /// before the end belong to the run.
    HEADRACE_AVX2_INLINE void find(const std::byte* at, std::size_t left) {
        const std::size_t stop = std::min(left, most);
        std::uint64_t before = 0; // the marks of the window before
        std::size_t found = 0, done = 0;
        for (; done < stop; done += window) {
            const std::size_t rest = std::min(left - done, window);
            const std::uint64_t marked = marks_in(at + done + rest - window) >> (window - rest);
            if (marked == 0 && rest == window) break; // Others are faster with these.
            const std::uint64_t twos = marked & (marked << 1 | before >> 63);
            if ((twos & (marked << 2 | before >> 62) & (marked << 3 | before >> 61)) != 0) break;
            const std::uint64_t inside = ~std::uint64_t{0} >> (window - rest);
            const std::uint64_t starts = ~(marked << 1 | before >> 63) & inside;
            for (std::size_t k = 0; k < 8; ++k) {
                const std::size_t bits = starts >> 8 * k & 0xFF;
                const auto base = static_cast<short>(done + 8 * k);
                store(found, _mm_add_epi16(load(start_places.of[bits].data()), _mm_set1_epi16(base)));
                found += static_cast<std::size_t>(_mm_popcnt_u32(static_cast<unsigned>(bits)));
            }
            before = marked;
        }
        size = std::min(done, left);
        if (before >> 63 != 0) size = places_[--found]; // The last one ends behind these windows.
        count = found;
        if (found != 0) store(found, _mm_set1_epi16(static_cast<short>(places_[found - 1])));
    }

    /// Decodes them.
    HEADRACE_AVX2_INLINE void decode(const std::byte* at, std::size_t left, std::byte* to) const {
        const std::size_t whole = count / lanes * lanes;
        std::size_t i = 0;
        for (; i < whole && places_[i + lanes / 2] + half <= left; i += lanes)
            put_eight(bytes_of(at, i, places_[i], places_[i + lanes / 2]), to + i * word);
        for (; i < whole; i += lanes) put_eight(last_bytes_of(at, left, i), to + i * word);
        if (i == count) return;
        std::byte numbers[lanes * word];
        put_eight(last_bytes_of(at, left, i), numbers);
        std::memcpy(to + i * word, numbers, (count - i) * word);
    }

    std::size_t count = 0; ///< Those found,
    std::size_t size = 0;  ///< and their bytes.

  private:
    static constexpr std::size_t lanes = 8;
    static constexpr std::size_t half = 16;          // bytes that four of them are among
    static constexpr std::size_t most = 16 * window; // bytes

    HEADRACE_AVX2_INLINE static __m128i load(const void* from) {
        return _mm_loadu_si128(static_cast<const __m128i*>(from));
    }
    HEADRACE_AVX2_INLINE void store(std::size_t i, __m128i places) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(places_ + i), places);
    }

    /// The bytes of eight, each at the beginning of four. Those of four are read from `low` on, the others from `high`.
    HEADRACE_AVX2_INLINE __m256i bytes_of(const std::byte* at, std::size_t i, std::ptrdiff_t low,
                                          std::ptrdiff_t high) const {
        const __m256i each = _mm256_setr_epi8(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6, 8, 8, 8, 8, 10, 10, 10,
                                              10, 12, 12, 12, 12, 14, 14, 14, 14);
        const __m256i places = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load(places_ + i)), each);
        const __m256i from = join(_mm_set1_epi8(static_cast<char>(low)), _mm_set1_epi8(static_cast<char>(high)));
        const __m256i within = _mm256_add_epi8(_mm256_sub_epi8(places, from), _mm256_set1_epi32(0x03020100));
        return _mm256_shuffle_epi8(join(load(at + low), load(at + high)), within);
    }

    /// The same near the end of the run, without a byte behind it.
    HEADRACE_AVX2_INLINE __m256i last_bytes_of(const std::byte* at, std::size_t left, std::size_t i) const {
        const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(left) - static_cast<std::ptrdiff_t>(half);
        return bytes_of(at, i, std::min<std::ptrdiff_t>(places_[i], last),
                        std::min<std::ptrdiff_t>(places_[i + lanes / 2], last));
    }

    HEADRACE_AVX2_INLINE static __m256i join(__m128i low, __m128i high) {
        return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    }

    HEADRACE_AVX2_INLINE static void put_eight(__m256i bytes, std::byte* to) {
        const __m256i stops = _mm256_andnot_si256(bytes, _mm256_set1_epi8(static_cast<char>(0x80)));
        const __m256i through = _mm256_xor_si256(stops, _mm256_add_epi32(stops, _mm256_set1_epi32(-1)));
        const __m256i kept = _mm256_and_si256(through, _mm256_set1_epi8(0x7F)); // bits, up to the first stop
        const __m256i pairs =
            _mm256_maddubs_epi16(_mm256_set1_epi16(static_cast<short>(0x8001)), _mm256_and_si256(bytes, kept));
        const __m256i values = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x40000001)); // low + high * 2^14
        put(to, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(values)));
        put(to + window / 2, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(values, 1)));
    }

    std::uint16_t places_[most + lanes]; // written before they are read
};

} // namespace

HEADRACE_AVX2 ShortVarints decode_short_varints(Bytes run, const std::byte* at, std::byte* to,
                                                std::size_t room) noexcept {
    const std::byte* const end = run.data() + run.size();
    ShortVarints all{0, at};
    ShortOnes found;
    while (all.next != end) {
        const auto left = static_cast<std::size_t>(end - all.next);
        found.find(all.next, left);
        if (found.count == 0) break;
        all.count += found.count;
        if (all.count > room) break;
        found.decode(all.next, left, to);
        all.next += found.size;
        to += found.count * word;
    }
    return all;
}

#else

ShortVarints decode_short_varints(Bytes, const std::byte* at, std::byte*, std::size_t) noexcept { return {0, at}; }

#endif

} // namespace headrace::proto

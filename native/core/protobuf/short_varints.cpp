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

#define HEADRACE_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define HEADRACE_AVX2_INLINE __attribute__((target("avx2,bmi,bmi2,popcnt"), always_inline)) inline

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

/// For the marks of twelve bytes, the first of which begins a varint: the four varints of up to three bytes from there
/// on.
struct NextFour {
    static constexpr std::size_t bytes = 12, each = 3, lane = 4;
    std::array<std::array<std::uint8_t, 4 * lane>, 1 << bytes> places{}; ///< of their bytes, each varint in a lane
    std::array<std::uint8_t, 1 << bytes> size{};                         ///< of all four

    constexpr NextFour() {
        for (std::size_t marked = 0; marked < size.size(); ++marked) {
            std::size_t at = 0;
            for (std::size_t i = 0; i < 4; ++i) {
                std::size_t length = 1;
                while (length < each && (marked >> (at + length - 1) & 1) != 0) ++length;
                for (std::size_t k = 0; k < lane; ++k)
                    places.at(marked).at(i * lane + k) = static_cast<std::uint8_t>(k < length ? at + k : nowhere);
                at += length;
            }
            size.at(marked) = static_cast<std::uint8_t>(at);
        }
    }

    static constexpr std::size_t nowhere = 0x80; // gives a zero
};
constexpr NextFour next_four;

/// Decodes varints of up to three bytes at the beginning of what is left of a run, which are found four at a time from
/// the marks of a window. No window waits for the one before: where it begins and how many begin in it follows from
/// the marks alone.
class NarrowOnes {
  public:
    NarrowOnes(Bytes run, const std::byte* at, std::byte* to, std::size_t room) noexcept
        : end_(run.data() + run.size()),
          to_(to),
          room_(room),
          done_{0, at} {}

    /// Those before a longer one, or before a window of varints of one byte, with which others are faster.
    HEADRACE_AVX2_INLINE ShortVarints decode() {
        constexpr std::size_t usual = 7; // steps: 28 varints, and no byte beyond `ahead`
        while (left() >= ahead && room_ - done_.count >= window) {
            const std::uint64_t marked = marks_in(done_.next);
            if (marked == 0 || has_longer(marked)) return done_;
            const std::size_t count = starting(marked, part);
            Steps steps{done_.next, marked};
            // As many in each window, so that no branch depends on the numbers. What is too much is overwritten.
            for (std::size_t i = 0; i < usual; ++i) put(to_ + i * four, steps.next());
            for (std::size_t i = usual; i * 4 < count; ++i) put(to_ + i * four, steps.next());
            pass(count, next_start(marked));
        }
        return decode_last();
    }

  private:
    // Bytes: of all varints that begin here the next one, too, begins in the window.
    static constexpr std::size_t part = window - NextFour::each;
    static constexpr std::size_t ahead = 96; // bytes that the steps of a window may read
    static constexpr std::size_t four = 4 * word;

    /// Four varints after the other.
    struct Steps {
        const std::byte* at;
        std::uint64_t marked;

        HEADRACE_AVX2_INLINE __m256i next() { return values(load(at), 0); }

        /// The same, without a byte behind the end.
        HEADRACE_AVX2_INLINE __m256i next_before(const std::byte* end) {
            const std::byte* const from = std::min(at, end - sizeof(__m128i));
            return values(load(from), at - from);
        }

      private:
        HEADRACE_AVX2_INLINE static __m128i load(const void* from) {
            return _mm_loadu_si128(static_cast<const __m128i*>(from));
        }

        /// Of bytes that begin `before` the place of the first one.
        HEADRACE_AVX2_INLINE __m256i values(__m128i bytes, std::ptrdiff_t before) {
            const std::size_t bits = marked & (next_four.size.size() - 1);
            __m128i places = load(next_four.places[bits].data());
            if (before != 0) places = _mm_add_epi8(places, _mm_set1_epi8(static_cast<char>(before)));
            const __m128i sevens = _mm_shuffle_epi8(_mm_and_si128(bytes, _mm_set1_epi8(0x7F)), places);
            const __m128i pairs = _mm_maddubs_epi16(_mm_set1_epi16(static_cast<short>(0x8001)), sevens);
            const __m128i four = _mm_madd_epi16(pairs, _mm_set1_epi32(0x40000001)); // low + high * 2^14
            at += next_four.size[bits];
            marked >>= next_four.size[bits];
            return _mm256_cvtepu32_epi64(four);
        }
    };

    [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(end_ - done_.next); }

    /// Whether a varint may have more than three bytes.
    HEADRACE_AVX2_INLINE static bool has_longer(std::uint64_t marked) {
        return (marked & marked >> 1 & marked >> 2) != 0;
    }

    /// The number of varints that begin in the first bytes of a window.
    HEADRACE_AVX2_INLINE static std::size_t starting(std::uint64_t marked, std::size_t bytes) {
        return static_cast<std::size_t>(_mm_popcnt_u64(_bzhi_u64(~marked << 1 | 1, static_cast<unsigned>(bytes))));
    }

    /// Where the first varint after `part` begins.
    HEADRACE_AVX2_INLINE static std::size_t next_start(std::uint64_t marked) {
        return part + static_cast<std::size_t>(_tzcnt_u64(~marked << 1 >> part));
    }

    HEADRACE_AVX2_INLINE void pass(std::size_t count, std::size_t bytes) {
        done_.count += count;
        done_.next += bytes;
        to_ += count * word;
    }

    /// Those near the end of the run or of the room, without a byte behind either.
    HEADRACE_AVX2_INLINE ShortVarints decode_last() {
        while (done_.next != end_) {
            const std::size_t rest = std::min(left(), window);
            const std::uint64_t marked = marks_in(done_.next + rest - window) >> (window - rest);
            if ((marked == 0 && rest == window) || has_longer(marked)) break;
            const std::size_t count = starting(marked, std::min(rest, part)), room = room_ - done_.count;
            if (count > room) return {done_.count + count, done_.next};
            Steps steps{done_.next, marked};
            std::size_t i = 0;
            for (; i < count && i + 4 <= room; i += 4) put(to_ + i * word, steps.next_before(end_));
            if (i < count) {
                std::byte numbers[four];
                put(numbers, steps.next_before(end_));
                std::memcpy(to_ + i * word, numbers, (count - i) * word);
            }
            pass(count, rest <= part ? rest : next_start(marked));
        }
        return done_;
    }

    const std::byte* end_;
    std::byte* to_;
    std::size_t room_;
    ShortVarints done_;
};

} // namespace

HEADRACE_AVX2 ShortVarints decode_short_varints(Bytes run, const std::byte* at, std::byte* to,
                                                std::size_t room) noexcept {
    const std::byte* const end = run.data() + run.size();
    ShortVarints all{0, at};
    ShortOnes found;
    while (all.next != end) {
        const ShortVarints narrow = NarrowOnes(run, all.next, to, room - all.count).decode();
        all.count += narrow.count;
        all.next = narrow.next;
        if (all.count > room || all.next == end) break;
        to += narrow.count * word;
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

#include "core/checksum/crc32c.hpp"

#include <array>
#include <type_traits>

#if defined(HEADRACE_X86)
#define HEADRACE_CRC_INSTRUCTION 1
#include <immintrin.h>
#elif defined(__aarch64__) && (defined(__linux__) || defined(__APPLE__)) && (defined(__GNUC__) || defined(__clang__))
#define HEADRACE_CRC_INSTRUCTION 1
#include <arm_acle.h>
#endif

namespace headrace {
namespace {

constexpr std::uint32_t polynomial = 0x82F63B78U;

using Tables = CrcTables<polynomial>;

#ifdef HEADRACE_CRC_INSTRUCTION

// The instruction has a latency of three cycles and a throughput of one per cycle, so three stretches are summed in
// parallel. To join them, the CRC of a stretch is shifted past the next one, as if that many zero bytes followed: one
// table lookup per byte.
using Shift = std::array<Tables::Table, 4>;

template <std::size_t zeros> constexpr Shift make_shift() {
    Shift shift{};
    for (std::size_t part = 0; part < 4; ++part) {
        std::array<std::uint32_t, 8> bits{};
        for (std::size_t bit = 0; bit < 8; ++bit) {
            std::uint32_t crc = std::uint32_t{1} << (part * 8 + bit);
            for (std::size_t i = 0; i < zeros; ++i) crc = Tables::step(crc, std::byte{});
            bits[bit] = crc;
        }
        for (std::size_t byte = 0; byte < 256; ++byte)
            for (std::size_t bit = 0; bit < 8; ++bit)
                if ((byte >> bit & 1) != 0) shift[part][byte] ^= bits[bit];
    }
    return shift;
}

constexpr std::size_t long_stretch = 1024;
constexpr std::size_t short_stretch = 128;
constexpr Shift long_shift = make_shift<long_stretch>();
constexpr Shift short_shift = make_shift<short_stretch>();

std::uint32_t shift_crc(const Shift& shift, std::uint32_t crc) {
    return shift[0][crc & 0xFF] ^ shift[1][crc >> 8 & 0xFF] ^ shift[2][crc >> 16 & 0xFF] ^ shift[3][crc >> 24];
}

#ifdef HEADRACE_X86
#define HEADRACE_CRC_TARGET __attribute__((target("sse4.2")))
HEADRACE_CRC_TARGET inline std::uint64_t step8(std::uint64_t crc, std::uint64_t word) {
    return _mm_crc32_u64(crc, word);
}
HEADRACE_CRC_TARGET inline std::uint32_t step1(std::uint32_t crc, std::uint8_t byte) { return _mm_crc32_u8(crc, byte); }
#else
#define HEADRACE_CRC_TARGET __attribute__((target("+crc")))
HEADRACE_CRC_TARGET inline std::uint64_t step8(std::uint64_t crc, std::uint64_t word) {
    return __crc32cd(static_cast<std::uint32_t>(crc), word);
}
HEADRACE_CRC_TARGET inline std::uint32_t step1(std::uint32_t crc, std::uint8_t byte) { return __crc32cb(crc, byte); }
#endif

/// Prefetches memory, a few lines at a time.
class Prefetch {
  public:
    explicit Prefetch(Bytes next) : at_(next.data()), end_(next.data() + next.size()) {}

    void lines(int count) noexcept {
        for (; count != 0 && at_ < end_; --count, at_ += line) __builtin_prefetch(at_);
    }
    void rest() noexcept {
        for (; at_ < end_; at_ += line) __builtin_prefetch(at_);
    }

  private:
    static constexpr std::size_t line = 64;
    const std::byte* at_;
    const std::byte* end_;
};

struct NoPrefetch {
    void lines(int) noexcept {}
};

template <std::size_t stretch, bool is_followed = false, typename Fetch>
HEADRACE_CRC_TARGET inline std::uint64_t three_stretches(std::uint64_t crc, const std::byte* at, const Shift& shift,
                                                         Fetch& fetch) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (const std::byte* const end = at + stretch; at != end;) {
        fetch.lines(3); // as many as the loop reads
        if constexpr (is_followed) {
            for (std::size_t next = 3; next < 6; ++next) __builtin_prefetch(at + next * stretch);
        }
        for (const std::byte* const part = at + 64; at != part; at += 8) {
            crc = step8(crc, load_le<std::uint64_t>(at));
            second = step8(second, load_le<std::uint64_t>(at + stretch));
            third = step8(third, load_le<std::uint64_t>(at + 2 * stretch));
        }
    }
    crc = shift_crc(shift, static_cast<std::uint32_t>(crc)) ^ second;
    return shift_crc(shift, static_cast<std::uint32_t>(crc)) ^ third;
}

template <typename Fetch>
HEADRACE_CRC_TARGET std::uint32_t update_by_instruction(std::uint32_t start, const std::byte* at, std::size_t size,
                                                        Fetch fetch) {
    std::uint64_t crc = start;
    // Three places that jump on after every kilobyte look like no stream to the processor, so the next three are
    // prefetched.
    for (; size >= 6 * long_stretch; size -= 3 * long_stretch, at += 3 * long_stretch)
        crc = three_stretches<long_stretch, true>(crc, at, long_shift, fetch);
    for (; size >= 3 * long_stretch; size -= 3 * long_stretch, at += 3 * long_stretch)
        crc = three_stretches<long_stretch>(crc, at, long_shift, fetch);
    for (; size >= 3 * short_stretch; size -= 3 * short_stretch, at += 3 * short_stretch)
        crc = three_stretches<short_stretch>(crc, at, short_shift, fetch);
    for (; size >= 8; size -= 8, at += 8) crc = step8(crc, load_le<std::uint64_t>(at));
    if constexpr (std::is_same_v<Fetch, Prefetch>) fetch.rest();
    auto narrow = static_cast<std::uint32_t>(crc);
    for (; size != 0; --size) narrow = step1(narrow, std::to_integer<std::uint8_t>(*at++));
    return narrow;
}

#ifdef HEADRACE_X86
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // GCC 12 has these complaints about its own header.
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define HEADRACE_FOLD __attribute__((target("sse4.2,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,vpclmulqdq")))
#define HEADRACE_FOLD_INLINE                                                                                           \
    __attribute__((target("sse4.2,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,vpclmulqdq"),                     \
                   always_inline)) inline

constexpr std::size_t vector = 64;
constexpr std::size_t least_folded = 128; // bytes from which folding is faster
constexpr unsigned vector_bits = 512;

/// What moves the two halves of sixteen bytes past the `bits` that follow.
constexpr std::array<std::uint64_t, 2> past(unsigned bits) {
    return {Tables::power(bits + 32), Tables::power(bits - 32)};
}

HEADRACE_FOLD_INLINE __m512i vector_at(const std::byte* at) { return _mm512_loadu_si512(at); }

/// Adds `before`, moved past the bits that `powers` are for, to what follows.
HEADRACE_FOLD_INLINE __m512i fold(__m512i before, __m512i powers, __m512i data) {
    constexpr int sum_of_three = 0x96;
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(before, powers, 0x00),
                                     _mm512_clmulepi64_epi128(before, powers, 0x11), data, sum_of_three);
}

template <unsigned bits> HEADRACE_FOLD_INLINE __m512i fold_past(__m512i before, __m512i data) {
    constexpr auto powers = past(bits);
    const __m128i both = _mm_set_epi64x(static_cast<long long>(powers[1]), static_cast<long long>(powers[0]));
    return fold(before, _mm512_broadcast_i32x4(both), data);
}

/// The same for the four parts of a vector, of which the first has to pass all others.
HEADRACE_FOLD_INLINE __m128i fold_parts(__m512i sum) {
    constexpr auto first = past(384), second = past(256), third = past(128);
    alignas(vector) static constexpr std::array<std::uint64_t, 8> powers = {first[0], first[1], second[0], second[1],
                                                                            third[0], third[1], 0,         0};
    const __m512i parts = fold(sum, _mm512_load_si512(powers.data()), _mm512_maskz_mov_epi64(0xC0, sum));
    const __m256i halves = _mm256_xor_si256(_mm512_castsi512_si256(parts), _mm512_extracti64x4_epi64(parts, 1));
    return _mm_xor_si128(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
}

/// As in crc32, with four sums of 64 bytes. The bytes after the last whole vector move the sum on by as many: the part
/// that leaves it is folded into the rest.
template <typename Fetch>
HEADRACE_FOLD std::uint32_t update_by_folding(std::uint32_t crc, const std::byte* at, std::size_t size, Fetch fetch) {
    __m512i sum = _mm512_xor_si512(vector_at(at), _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
    if (size >= 4 * vector) {
        __m512i second = vector_at(at + vector), third = vector_at(at + 2 * vector),
                fourth = vector_at(at + 3 * vector);
        for (at += 4 * vector, size -= 4 * vector; size >= 4 * vector; at += 4 * vector, size -= 4 * vector) {
            fetch.lines(4);
            sum = fold_past<4 * vector_bits>(sum, vector_at(at));
            second = fold_past<4 * vector_bits>(second, vector_at(at + vector));
            third = fold_past<4 * vector_bits>(third, vector_at(at + 2 * vector));
            fourth = fold_past<4 * vector_bits>(fourth, vector_at(at + 3 * vector));
        }
        sum =
            fold_past<3 * vector_bits>(sum, fold_past<2 * vector_bits>(second, fold_past<vector_bits>(third, fourth)));
    } else {
        at += vector;
        size -= vector;
    }
    for (; size >= vector; at += vector, size -= vector) sum = fold_past<vector_bits>(sum, vector_at(at));
    if constexpr (std::is_same_v<Fetch, Prefetch>) fetch.rest();
    if (size != 0) {
        alignas(vector) static constexpr auto each = [] {
            std::array<std::uint8_t, vector> made{};
            for (std::size_t i = 0; i < vector; ++i) made[i] = static_cast<std::uint8_t>(i);
            return made;
        }();
        const __mmask64 inside = _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(size));
        const __m512i places =
            _mm512_add_epi8(_mm512_load_si512(each.data()), _mm512_set1_epi8(static_cast<char>(size)));
        const __m512i leaving = _mm512_maskz_permutexvar_epi8(~std::uint64_t{0} << (vector - size), places, sum);
        const __m512i staying = _mm512_permutex2var_epi8(sum, places, _mm512_maskz_loadu_epi8(inside, at));
        sum = fold_past<vector_bits>(leaving, staying);
    }
    const __m128i last = fold_parts(sum);
    const std::uint64_t low = step8(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(last)));
    return static_cast<std::uint32_t>(step8(low, static_cast<std::uint64_t>(_mm_extract_epi64(last, 1))));
}

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

template <typename Fetch> std::uint32_t update(std::uint32_t crc, Bytes data, Fetch fetch, const Cpu& cpu) {
#ifdef HEADRACE_X86
    if (cpu.fold && data.size() >= least_folded) return update_by_folding(crc, data.data(), data.size(), fetch);
#else
    (void)cpu;
#endif
    return update_by_instruction(crc, data.data(), data.size(), fetch);
}

bool has_instruction(const Cpu& cpu) noexcept {
#ifdef HEADRACE_X86
    return cpu.sse42;
#else
    return cpu.crc;
#endif
}

#endif

} // namespace

std::uint32_t crc32c(Bytes data, std::uint32_t before, [[maybe_unused]] const Cpu& cpu) noexcept {
#ifdef HEADRACE_CRC_INSTRUCTION
    if (has_instruction(cpu)) return ~update(~before, data, NoPrefetch{}, cpu);
#endif
    return ~Tables::update(~before, data);
}

std::uint32_t crc32c_prefetching(Bytes data, [[maybe_unused]] Bytes next, [[maybe_unused]] const Cpu& cpu) noexcept {
#ifdef HEADRACE_CRC_INSTRUCTION
    if (has_instruction(cpu)) return ~update(~0U, data, Prefetch(next), cpu);
#endif
    return ~Tables::update(~0U, data);
}

const char* crc32c_engine([[maybe_unused]] const Cpu& cpu) noexcept {
#ifdef HEADRACE_CRC_INSTRUCTION
    if (has_instruction(cpu)) {
#ifdef HEADRACE_X86
        return "sse4.2";
#else
        return "armv8";
#endif
    }
#endif
    return "table";
}

} // namespace headrace

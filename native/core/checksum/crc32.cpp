#include "core/checksum/crc32.hpp"

#include <array>

#include "core/checksum/crc32c.hpp"

#if defined(HEADRACE_X86)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

constexpr std::uint32_t polynomial = 0xEDB88320U;

using Tables = CrcTables<polynomial>;

// The product of two polynomials modulo the CRC's polynomial. Bit 31 is the coefficient of 1.
constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) {
    std::uint32_t sum = 0;
    for (; a != 0; a <<= 1, b = (b >> 1) ^ ((b & 1) != 0 ? polynomial : 0)) sum ^= (a >> 31) != 0 ? b : 0;
    return sum;
}

#if defined(HEADRACE_X86)

static_assert(Tables::power(512 + 32) == 0x154442BD4 &&
              Tables::power(512 - 32) == 0x1C6E41596); // the constants of the paper

constexpr std::size_t fold_bytes = 64;

__attribute__((target("pclmul"))) inline __m128i fold(__m128i before, __m128i powers, __m128i data) {
    return _mm_xor_si128(
        _mm_xor_si128(_mm_clmulepi64_si128(before, powers, 0x00), _mm_clmulepi64_si128(before, powers, 0x11)), data);
}

// Moving sixteen bytes past the n bits that follow, and adding them there, keeps the remainder. Four sums run in
// parallel. Source: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel,
// 2009.
__attribute__((target("pclmul"))) std::uint32_t update_by_folding(std::uint32_t crc, const std::byte* at,
                                                                  std::size_t size) {
    const auto load = [](const std::byte* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); };
    const __m128i by_four = _mm_set_epi64x(static_cast<long long>(Tables::power(512 - 32)),
                                           static_cast<long long>(Tables::power(512 + 32)));
    const __m128i by_one = _mm_set_epi64x(static_cast<long long>(Tables::power(128 - 32)),
                                          static_cast<long long>(Tables::power(128 + 32)));
    __m128i sums[4] = {_mm_xor_si128(load(at), _mm_cvtsi32_si128(static_cast<int>(crc))), load(at + 16), load(at + 32),
                       load(at + 48)};
    for (at += fold_bytes, size -= fold_bytes; size >= fold_bytes; at += fold_bytes, size -= fold_bytes)
        for (std::size_t i = 0; i < 4; ++i) sums[i] = fold(sums[i], by_four, load(at + 16 * i));
    __m128i sum = sums[0];
    for (std::size_t i = 1; i < 4; ++i) sum = fold(sum, by_one, sums[i]);
    std::array<std::byte, 16> left;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(left.data()), sum);
    return Tables::update(Tables::update(0, left), {at, size});
}

#endif

} // namespace

std::uint32_t crc32(Bytes data, std::uint32_t before, [[maybe_unused]] const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (cpu.pclmul && data.size() >= fold_bytes) return ~update_by_folding(~before, data.data(), data.size());
#endif
    return ~Tables::update(~before, data);
}

// Appending a byte multiplies the first part by x^8.
std::uint32_t join_crc32(std::uint32_t first, std::uint32_t second, std::uint64_t size) noexcept {
    std::uint32_t power = 0x00800000U; // x^8
    for (; size != 0; size >>= 1, power = product(power, power))
        if ((size & 1) != 0) first = product(first, power);
    return first ^ second;
}

} // namespace headrace

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

template <std::size_t stretch, typename Fetch>
HEADRACE_CRC_TARGET inline std::uint64_t three_stretches(std::uint64_t crc, const std::byte* at, const Shift& shift,
                                                         Fetch& fetch) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (const std::byte* const end = at + stretch; at != end;) {
        fetch.lines(3); // as many as the loop reads
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
    if (has_instruction(cpu)) return ~update_by_instruction(~before, data.data(), data.size(), NoPrefetch{});
#endif
    return ~Tables::update(~before, data);
}

std::uint32_t crc32c_prefetching(Bytes data, [[maybe_unused]] Bytes next, [[maybe_unused]] const Cpu& cpu) noexcept {
#ifdef HEADRACE_CRC_INSTRUCTION
    if (has_instruction(cpu)) return ~update_by_instruction(~0U, data.data(), data.size(), Prefetch(next));
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

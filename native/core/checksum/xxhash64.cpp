#include "core/checksum/xxhash64.hpp"

#include <array>

namespace headrace {
namespace {

constexpr std::uint64_t prime_1 = 0x9E3779B185EBCA87;
constexpr std::uint64_t prime_2 = 0xC2B2AE3D27D4EB4F;
constexpr std::uint64_t prime_3 = 0x165667B19E3779F9;
constexpr std::uint64_t prime_4 = 0x85EBCA77C2B2AE63;
constexpr std::uint64_t prime_5 = 0x27D4EB2F165667C5;
constexpr std::ptrdiff_t stripe = 32;

std::uint64_t mix_in(std::uint64_t lane, std::uint64_t word) noexcept {
    return std::rotl(lane + word * prime_2, 31) * prime_1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) noexcept {
    return (hash ^ mix_in(0, lane)) * prime_1 + prime_4;
}

std::uint64_t hash_stripes(const std::byte*& at, const std::byte* end, std::uint64_t seed) noexcept {
    std::array<std::uint64_t, 4> lanes{seed + prime_1 + prime_2, seed + prime_2, seed, seed - prime_1};
    for (; end - at >= stripe; at += stripe)
        for (std::size_t k = 0; k < lanes.size(); ++k) lanes[k] = mix_in(lanes[k], load_le<std::uint64_t>(at + 8 * k));
    std::uint64_t hash =
        std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
    for (const std::uint64_t lane : lanes) hash = merge(hash, lane);
    return hash;
}

} // namespace

std::uint64_t xxhash64(Bytes data, std::uint64_t seed) noexcept {
    const std::byte* at = data.data();
    const std::byte* const end = at + data.size();
    std::uint64_t hash = end - at >= stripe ? hash_stripes(at, end, seed) : seed + prime_5;
    hash += data.size();
    for (; end - at >= 8; at += 8)
        hash = std::rotl(hash ^ mix_in(0, load_le<std::uint64_t>(at)), 27) * prime_1 + prime_4;
    if (end - at >= 4) {
        hash = std::rotl(hash ^ load_le<std::uint32_t>(at) * prime_1, 23) * prime_2 + prime_3;
        at += 4;
    }
    for (; at != end; ++at) hash = std::rotl(hash ^ std::to_integer<std::uint64_t>(*at) * prime_5, 11) * prime_1;
    hash = (hash ^ hash >> 33) * prime_2;
    hash = (hash ^ hash >> 29) * prime_3;
    return hash ^ hash >> 32;
}

} // namespace headrace

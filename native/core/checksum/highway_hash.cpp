#include "core/checksum/highway_hash.hpp"

#include <algorithm>
#include <bit>

#ifdef HEADRACE_X86
#include <immintrin.h>
#endif

namespace headrace {
namespace {

using Lanes = std::array<std::uint64_t, 4>;

constexpr std::size_t packet_size = 32;
constexpr Lanes initial_mul0 = {0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344, 0x243f6a8885a308d3};
constexpr Lanes initial_mul1 = {0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c, 0x452821e638d01377};
constexpr Lanes key = {0x2f696c6567656952, 0x0a7364726f636572, 0x2f696c6567656952, 0x0a7364726f636572};

constexpr std::uint64_t swap_halves(std::uint64_t value) { return std::rotl(value, 32); }

struct State {
    Lanes v0, v1, mul0, mul1;

    State() : mul0(initial_mul0), mul1(initial_mul1) {
        for (std::size_t i = 0; i < 4; ++i) {
            v0[i] = mul0[i] ^ key[i];
            v1[i] = mul1[i] ^ swap_halves(key[i]);
        }
    }
};

// Shuffles the bytes of a pair of lanes, so that every byte of the sum depends on well-mixed bytes.
constexpr std::array<int, 16> merge_order = {3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7};

void add_merged(Lanes& to, const Lanes& from) {
    for (std::size_t pair = 0; pair < 4; pair += 2) {
        for (std::size_t half = 0; half < 2; ++half) {
            std::uint64_t word = 0;
            for (std::size_t i = 0; i < 8; ++i) {
                const auto at = static_cast<std::size_t>(merge_order[half * 8 + i]);
                word |= (from[pair + at / 8] >> (at % 8 * 8) & 0xFF) << (i * 8);
            }
            to[pair + half] += word;
        }
    }
}

void update(State& s, const Lanes& packet) {
    for (std::size_t i = 0; i < 4; ++i) {
        s.v1[i] += s.mul0[i] + packet[i];
        s.mul0[i] ^= (s.v1[i] & 0xFFFFFFFF) * (s.v0[i] >> 32);
        s.v0[i] += s.mul1[i];
        s.mul1[i] ^= (s.v0[i] & 0xFFFFFFFF) * (s.v1[i] >> 32);
    }
    add_merged(s.v0, s.v1);
    add_merged(s.v1, s.v0);
}

Lanes load(const std::byte* at) {
    Lanes packet;
    for (std::size_t i = 0; i < 4; ++i) packet[i] = load_le<std::uint64_t>(at + i * 8);
    return packet;
}

// Pads the last packet: `tail` holds the bytes after the last whole packet.
std::array<std::byte, packet_size> pad(Bytes tail) {
    std::array<std::byte, packet_size> packet{};
    const std::size_t whole = tail.size() & ~std::size_t{3};
    const std::size_t rest = tail.size() & 3;
    std::memcpy(packet.data(), tail.data(), whole);
    if (tail.size() >= 16) {
        std::memcpy(packet.data() + 28, tail.data() + tail.size() - 4, 4);
    } else if (rest != 0) {
        packet[16] = tail[whole];
        packet[17] = tail[whole + (rest >> 1)];
        packet[18] = tail[whole + rest - 1];
    }
    return packet;
}

// The last 1 to 31 bytes: their count goes into the state, the bytes into a padded packet.
void update_tail(State& s, Bytes tail) {
    const auto size = static_cast<std::uint64_t>(tail.size());
    for (std::size_t i = 0; i < 4; ++i) {
        s.v0[i] += (size << 32) + size;
        const auto low = std::rotl(static_cast<std::uint32_t>(s.v1[i]), static_cast<int>(size));
        const auto high = std::rotl(static_cast<std::uint32_t>(s.v1[i] >> 32), static_cast<int>(size));
        s.v1[i] = std::uint64_t{high} << 32 | low;
    }
    update(s, load(pad(tail).data()));
}

std::uint64_t finish(State& s) {
    for (int round = 0; round < 4; ++round)
        update(s, {swap_halves(s.v0[2]), swap_halves(s.v0[3]), swap_halves(s.v0[0]), swap_halves(s.v0[1])});
    return s.v0[0] + s.v1[0] + s.mul0[0] + s.mul1[0];
}

std::uint64_t hash_portable(Bytes data) {
    State state;
    std::size_t at = 0;
    for (; at + packet_size <= data.size(); at += packet_size) update(state, load(data.data() + at));
    if (at != data.size()) update_tail(state, data.subspan(at));
    return finish(state);
}

std::uint64_t hash_pieces_portable(std::span<const Bytes> pieces) {
    State state;
    std::array<std::byte, packet_size> room{};
    std::size_t held = 0;
    for (const Bytes piece : pieces) {
        for (const std::byte byte : piece) { // slow, but plain
            room[held++] = byte;
            if (held < packet_size) continue;
            update(state, load(room.data()));
            held = 0;
        }
    }
    if (held != 0) update_tail(state, Bytes(room).first(held));
    return finish(state);
}

#ifdef HEADRACE_X86

#define HEADRACE_AVX2 __attribute__((target("avx2"), always_inline)) inline

struct Vectors {
    __m256i v0, v1, mul0, mul1;
};

HEADRACE_AVX2 __m256i get(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

HEADRACE_AVX2 Vectors initial() {
    const State state;
    return {get(state.v0.data()), get(state.v1.data()), get(state.mul0.data()), get(state.mul1.data())};
}

HEADRACE_AVX2 void update(Vectors& s, __m256i packet) {
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7));
    s.v1 = _mm256_add_epi64(s.v1, _mm256_add_epi64(s.mul0, packet));
    s.mul0 = _mm256_xor_si256(s.mul0, _mm256_mul_epu32(s.v1, _mm256_srli_epi64(s.v0, 32)));
    s.v0 = _mm256_add_epi64(s.v0, s.mul1);
    s.mul1 = _mm256_xor_si256(s.mul1, _mm256_mul_epu32(s.v0, _mm256_srli_epi64(s.v1, 32)));
    s.v0 = _mm256_add_epi64(s.v0, _mm256_shuffle_epi8(s.v1, order));
    s.v1 = _mm256_add_epi64(s.v1, _mm256_shuffle_epi8(s.v0, order));
}

// Hashes the rest from `at` on, then runs the final rounds.
HEADRACE_AVX2 std::uint64_t finish(Vectors s, Bytes data, std::size_t at) {
    for (; at + packet_size <= data.size(); at += packet_size) update(s, get(data.data() + at));
    if (at != data.size()) {
        const auto size = static_cast<int>(data.size() - at);
        s.v0 = _mm256_add_epi64(s.v0, _mm256_set1_epi32(size));
        s.v1 = _mm256_or_si256(_mm256_slli_epi32(s.v1, size), _mm256_srli_epi32(s.v1, 32 - size));
        update(s, get(pad(data.subspan(at)).data()));
    }
    const __m256i permuted = _mm256_setr_epi32(5, 4, 7, 6, 1, 0, 3, 2); // lanes 2, 3, 0, 1, with their halves swapped
    for (int round = 0; round < 4; ++round) update(s, _mm256_permutevar8x32_epi32(s.v0, permuted));
    const __m256i sum = _mm256_add_epi64(_mm256_add_epi64(s.v0, s.v1), _mm256_add_epi64(s.mul0, s.mul1));
    return static_cast<std::uint64_t>(_mm256_extract_epi64(sum, 0));
}

__attribute__((target("avx2"))) std::uint64_t hash_avx2(Bytes data) { return finish(initial(), data, 0); }

__attribute__((target("avx2"))) std::uint64_t hash_pieces_avx2(std::span<const Bytes> pieces) {
    Vectors state = initial();
    std::array<std::byte, packet_size> room{};
    std::size_t held = 0;
    for (Bytes piece : pieces) {
        if (held != 0) {
            const std::size_t more = std::min(packet_size - held, piece.size());
            if (more != 0) std::memcpy(room.data() + held, piece.data(), more);
            held += more;
            piece = piece.subspan(more);
            if (held < packet_size) continue;
            update(state, get(room.data()));
        }
        const std::size_t whole = piece.size() / packet_size * packet_size;
        for (std::size_t at = 0; at < whole; at += packet_size) update(state, get(piece.data() + at));
        held = piece.size() - whole;
        if (held != 0) std::memcpy(room.data(), piece.data() + whole, held);
    }
    return finish(state, Bytes(room).first(held), 0);
}

// Each step depends on the previous one, so two inputs in parallel take hardly longer than one.
__attribute__((target("avx2"))) std::array<std::uint64_t, 2> hash_pair_avx2(Bytes first, Bytes second) {
    Vectors one = initial(), other = initial();
    const std::size_t common = std::min(first.size(), second.size());
    std::size_t at = 0;
    for (; at + packet_size <= common; at += packet_size) {
        update(one, get(first.data() + at));
        update(other, get(second.data() + at));
    }
    return {finish(one, first, at), finish(other, second, at)};
}

#endif

} // namespace

std::uint64_t riegeli_hash(Bytes data, [[maybe_unused]] const Cpu& cpu) noexcept {
#ifdef HEADRACE_X86
    if (cpu.avx2) return hash_avx2(data);
#endif
    return hash_portable(data);
}

std::uint64_t riegeli_hash_pieces(std::span<const Bytes> pieces, [[maybe_unused]] const Cpu& cpu) noexcept {
#ifdef HEADRACE_X86
    if (cpu.avx2) return hash_pieces_avx2(pieces);
#endif
    return hash_pieces_portable(pieces);
}

std::array<std::uint64_t, 2> riegeli_hash_pair(Bytes first, Bytes second, [[maybe_unused]] const Cpu& cpu) noexcept {
#ifdef HEADRACE_X86
    if (cpu.avx2) return hash_pair_avx2(first, second);
#endif
    return {hash_portable(first), hash_portable(second)};
}

} // namespace headrace

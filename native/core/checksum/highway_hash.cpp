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

// Up to this many inputs in parallel: more would wait for memory.
constexpr std::size_t most_together = 4;

// Whole packets that lie side by side in each of some inputs.
struct Runs {
    std::array<Vectors, most_together> states;
    std::array<const std::byte*, most_together> at;
    std::size_t size; // of each, in bytes
};

template <std::size_t count> HEADRACE_AVX2 void advance_each(Runs& runs) {
    std::array<Vectors, count> states;
    for (std::size_t i = 0; i < count; ++i) states[i] = runs.states[i];
    for (std::size_t k = 0; k < runs.size; k += packet_size)
        for (std::size_t i = 0; i < count; ++i) update(states[i], get(runs.at[i] + k));
    for (std::size_t i = 0; i < count; ++i) runs.states[i] = states[i];
}

__attribute__((target("avx2"))) void advance_one(Runs& runs) { advance_each<1>(runs); }
__attribute__((target("avx2"))) void advance_two(Runs& runs) { advance_each<2>(runs); }
__attribute__((target("avx2"))) void advance_three(Runs& runs) { advance_each<3>(runs); }
__attribute__((target("avx2"))) void advance_four(Runs& runs) { advance_each<4>(runs); }

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // GCC 12 has these complaints about its own header.
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define HEADRACE_AVX512 __attribute__((target("avx2,avx512f,avx512bw"), always_inline)) inline

// The same parts of two states.
struct WideVectors {
    __m512i v0, v1, mul0, mul1;
};

HEADRACE_AVX512 __m512i join(__m256i low, __m256i high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

HEADRACE_AVX512 WideVectors join(const Vectors& low, const Vectors& high) {
    return {join(low.v0, high.v0), join(low.v1, high.v1), join(low.mul0, high.mul0), join(low.mul1, high.mul1)};
}

HEADRACE_AVX512 void part(const WideVectors& from, Vectors& low, Vectors& high) {
    low = {_mm512_castsi512_si256(from.v0), _mm512_castsi512_si256(from.v1), _mm512_castsi512_si256(from.mul0),
           _mm512_castsi512_si256(from.mul1)};
    high = {_mm512_extracti64x4_epi64(from.v0, 1), _mm512_extracti64x4_epi64(from.v1, 1),
            _mm512_extracti64x4_epi64(from.mul0, 1), _mm512_extracti64x4_epi64(from.mul1, 1)};
}

HEADRACE_AVX512 void update(WideVectors& s, __m512i packets) {
    const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7));
    s.v1 = _mm512_add_epi64(s.v1, _mm512_add_epi64(s.mul0, packets));
    s.mul0 = _mm512_xor_si512(s.mul0, _mm512_mul_epu32(s.v1, _mm512_srli_epi64(s.v0, 32)));
    s.v0 = _mm512_add_epi64(s.v0, s.mul1);
    s.mul1 = _mm512_xor_si512(s.mul1, _mm512_mul_epu32(s.v0, _mm512_srli_epi64(s.v1, 32)));
    s.v0 = _mm512_add_epi64(s.v0, _mm512_shuffle_epi8(s.v1, order));
    s.v1 = _mm512_add_epi64(s.v1, _mm512_shuffle_epi8(s.v0, order));
}

// Sixteen registers of 32 bytes do not hold four states. (On Zen 5, a megabyte of one input takes 105 us, of two 58, of
// four 48, and of four like this 25.)
__attribute__((target("avx2,avx512f,avx512bw"))) void advance_four_wide(Runs& runs) {
    WideVectors one = join(runs.states[0], runs.states[1]), other = join(runs.states[2], runs.states[3]);
    for (std::size_t k = 0; k < runs.size; k += packet_size) {
        update(one, join(get(runs.at[0] + k), get(runs.at[1] + k)));
        update(other, join(get(runs.at[2] + k), get(runs.at[3] + k)));
    }
    part(one, runs.states[0], runs.states[1]);
    part(other, runs.states[2], runs.states[3]);
}

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

// An input whose pieces are cut into runs of packets. Bytes of a packet that spans pieces are held back.
struct Cut {
    std::span<const Bytes> pieces; // after the run
    std::size_t number;            // of the input
    std::size_t size;              // of the run, in bytes
    std::array<std::byte, packet_size> room;
    std::size_t held;
};

// Finds the next run of an input. False at its end.
HEADRACE_AVX2 bool find_run(Cut& cut, Vectors& state, const std::byte*& at) {
    for (; !cut.pieces.empty();) {
        Bytes piece = cut.pieces.front();
        cut.pieces = cut.pieces.subspan(1);
        if (cut.held != 0) {
            const std::size_t more = std::min(packet_size - cut.held, piece.size());
            if (more != 0) std::memcpy(cut.room.data() + cut.held, piece.data(), more);
            cut.held += more;
            piece = piece.subspan(more);
            if (cut.held < packet_size) continue;
            update(state, get(cut.room.data()));
        }
        cut.size = piece.size() / packet_size * packet_size;
        cut.held = piece.size() - cut.size;
        if (cut.held != 0) std::memcpy(cut.room.data(), piece.data() + cut.size, cut.held);
        at = piece.data();
        if (cut.size != 0) return true;
    }
    return false;
}

// An input that ends leaves its place to the next one.
__attribute__((target("avx2"))) void hash_many_avx2(std::span<const Pieces> inputs, std::span<std::uint64_t> hashes,
                                                    void (*advance_all)(Runs&)) {
    constexpr std::array<void (*)(Runs&), most_together - 1> advance_some = {&advance_one, &advance_two,
                                                                             &advance_three};
    Runs runs;
    std::array<Cut, most_together> cuts;
    std::size_t count = 0, next = 0;
    const auto end = [&](std::size_t place) HEADRACE_INLINE_LAMBDA __attribute__((target("avx2"))) {
        hashes[cuts[place].number] = finish(runs.states[place], Bytes(cuts[place].room).first(cuts[place].held), 0);
    };
    while (count != 0 || next < inputs.size()) {
        for (; count < most_together && next < inputs.size(); ++next) {
            cuts[count] = {inputs[next], next, 0, {}, 0};
            runs.states[count] = initial();
            if (find_run(cuts[count], runs.states[count], runs.at[count])) ++count;
            else end(count);
        }
        if (count == 0) break;
        runs.size = cuts[0].size;
        for (std::size_t i = 1; i < count; ++i) runs.size = std::min(runs.size, cuts[i].size);
        (count == most_together ? advance_all : advance_some[count - 1])(runs);
        for (std::size_t i = 0; i < count;) {
            cuts[i].size -= runs.size;
            runs.at[i] += runs.size;
            if (cuts[i].size != 0 || find_run(cuts[i], runs.states[i], runs.at[i])) {
                ++i;
                continue;
            }
            end(i);
            --count;
            cuts[i] = cuts[count];
            runs.states[i] = runs.states[count];
            runs.at[i] = runs.at[count];
        }
    }
}

#endif

} // namespace

std::uint64_t riegeli_hash(Bytes data, [[maybe_unused]] const Cpu& cpu) noexcept {
#ifdef HEADRACE_X86
    if (cpu.avx2) return hash_avx2(data);
#endif
    return hash_portable(data);
}

std::uint64_t riegeli_hash_pieces(Pieces pieces, [[maybe_unused]] const Cpu& cpu) noexcept {
#ifdef HEADRACE_X86
    if (cpu.avx2) return hash_pieces_avx2(pieces);
#endif
    return hash_pieces_portable(pieces);
}

void riegeli_hash_many(std::span<const Pieces> inputs, std::span<std::uint64_t> hashes,
                       [[maybe_unused]] const Cpu& cpu) noexcept {
#ifdef HEADRACE_X86
    if (cpu.avx2) return hash_many_avx2(inputs, hashes, cpu.vbmi ? &advance_four_wide : &advance_four);
#endif
    for (std::size_t i = 0; i < inputs.size(); ++i) hashes[i] = hash_pieces_portable(inputs[i]);
}

std::array<std::uint64_t, 2> riegeli_hash_pair(Bytes first, Bytes second, [[maybe_unused]] const Cpu& cpu) noexcept {
#ifdef HEADRACE_X86
    if (cpu.avx2) return hash_pair_avx2(first, second);
#endif
    return {hash_portable(first), hash_portable(second)};
}

} // namespace headrace

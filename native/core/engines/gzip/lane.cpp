#include "core/engines/gzip/lane.hpp"

#include <algorithm>
#include <bit>

namespace headrace::deflate {
namespace {

constexpr unsigned looks = 4;              // lookups between two loads, each of one or two literals
constexpr unsigned step_bits = 64;         // at most, of the input
constexpr unsigned step_bytes = 2 * looks; // at most, of the output
static_assert(looks * Codes::literal_bits < 57);
constexpr std::size_t slack = 16;
constexpr std::size_t bytes_per_match = 16;
constexpr std::size_t match_cost = 33; // steps: a match may give as many bytes as they do

} // namespace

Lane::Lane(std::size_t room)
    : room_(new std::byte[window_bytes + room + slack]),
      capacity_(room),
      matches_(new Match[room / bytes_per_match]),
      match_capacity_(room / bytes_per_match) {}

void Lane::begin(Bytes data, std::uint64_t at, std::uint64_t until) noexcept {
    input_ = data;
    start_ = at;
    until_ = until;
    now_ = whole_ = {at, 0, 0};
    begin_block();
}

std::size_t Lane::safe_steps() const noexcept {
    const std::uint64_t bits = std::uint64_t{input_.size()} * 8;
    if (state_ != State::running || now_.at + 64 + step_bits > bits) return 0;
    return std::min(static_cast<std::size_t>(bits - 64 - now_.at) / step_bits, (capacity_ - now_.size) / step_bytes);
}

template <std::size_t count> inline void Lane::run_interleaved(Lane* const* lanes) noexcept {
    std::uint64_t at[count];
    std::byte* to[count];
    const Entry* table[count];
    const std::byte* const input = lanes[0]->input_.data();
    std::size_t steps = ~std::size_t{0};
    for (std::size_t k = 0; k < count; ++k) {
        steps = std::min(steps, lanes[k]->safe_steps());
        at[k] = lanes[k]->now_.at;
        to[k] = lanes[k]->data() + lanes[k]->now_.size;
        table[k] = lanes[k]->codes_.literals.data();
    }
    if (steps <= match_cost) {
        for (std::size_t k = 0; k < count; ++k)
            if (lanes[k]->safe_steps() <= match_cost) lanes[k]->step();
        return;
    }
    while (steps > match_cost) {
        std::uint64_t bits[count];
        Entry stopped[count];
#pragma GCC unroll 4
        for (std::size_t k = 0; k < count; ++k)
            bits[k] = load_le<std::uint64_t>(input + (at[k] >> 3)) >> (at[k] & 7) |
                      std::uint64_t{1} << 63; // marks how far they were shifted
#pragma GCC unroll 4
        for (unsigned i = 0; i < looks; ++i) {
#pragma GCC unroll 4
            for (std::size_t k = 0; k < count;
                 ++k) { // interleaved: a processor does not look ahead over all lookups of one lane
                const Entry entry = stopped[k] = table[k][bits[k] & ((1U << Codes::literal_bits) - 1)];
                bits[k] >>= entry & 63;
                store_le(to[k], static_cast<std::uint16_t>(entry >> 16));
                to[k] += static_cast<std::uint8_t>(entry >> 8);
            }
        }
        Entry any = 0;
#pragma GCC unroll 4
        for (std::size_t k = 0; k < count; ++k) {
            at[k] += static_cast<unsigned>(std::countl_zero(bits[k]));
            any |= stopped[k];
        }
        --steps;
        if ((any & other_flag) == 0) [[likely]]
            continue;
        unsigned waiting = 0;
        for (std::size_t k = 0; k < count; ++k) waiting |= (stopped[k] >> 7 & 1) << k;
        for (; waiting != 0; waiting &= waiting - 1) {
            const auto k = static_cast<std::size_t>(std::countr_zero(waiting));
            Lane& lane = *lanes[k];
            lane.now_.at = at[k];
            lane.now_.size = static_cast<std::size_t>(to[k] - lane.data());
            lane.step();
            // It may have begun another block.
            steps = lane.now_.at - at[k] <= step_bits && lane.state_ == State::running
                        ? steps - std::min(steps, match_cost)
                        : 0;
            at[k] = lane.now_.at;
            to[k] = lane.data() + lane.now_.size;
        }
    }
    for (std::size_t k = 0; k < count; ++k) {
        lanes[k]->now_.at = at[k];
        lanes[k]->now_.size = static_cast<std::size_t>(to[k] - lanes[k]->data());
    }
}

void Lane::run_all(Lane* const* lanes, std::size_t count) noexcept {
    switch (count) {
    case 3: return run_interleaved<3>(lanes);
    case 2: return run_interleaved<2>(lanes);
    default: return run_interleaved<1>(lanes);
    }
}

#ifdef HEADRACE_X86
HEADRACE_FOR_BMI2 void Lane::run_all_bmi2(Lane* const* lanes, std::size_t count) noexcept {
    switch (count) {
    case 3: return run_interleaved<3>(lanes);
    case 2: return run_interleaved<2>(lanes);
    default: return run_interleaved<1>(lanes);
    }
}
#endif

void Lane::run(std::span<Lane* const> lanes, [[maybe_unused]] const Cpu& cpu) noexcept {
    auto* run_lanes = &Lane::run_all;
#ifdef HEADRACE_X86
    if (cpu.bmi2) run_lanes = &Lane::run_all_bmi2;
#endif
    std::array<Lane*, most_lanes> running;
    std::size_t count = 0;
    for (Lane* lane : lanes)
        if (lane->state_ == State::running) running[count++] = lane;
    while (count != 0) {
        run_lanes(running.data(), count);
        const auto end = running.begin() + static_cast<std::ptrdiff_t>(count);
        count = static_cast<std::size_t>(
            std::remove_if(running.begin(), end, [](Lane* lane) { return lane->state_ != State::running; }) -
            running.begin());
    }
}

// Decodes one symbol, also near the end of the input or the output.
void Lane::step() noexcept {
    const std::uint64_t bits = bits_at(input_, now_.at);
    const Entry entry = codes_.literals[bits & (codes_.literals.size() - 1)];
    Symbol found{0, 0};
    if ((entry & other_flag) != 0 && entry >> 25 != 0) found = {entry >> 16 & 0x1FF, entry >> 25};
    else found = codes_.long_literals.find(bits); // a long code, or the first of two literals
    state_ = State::stuck;
    if (found.bits == 0 || now_.at + found.bits > std::uint64_t{input_.size()} * 8) return;
    if (found.value < end_of_block) {
        if (now_.size == capacity_) return;
        data()[now_.size++] = static_cast<std::byte>(found.value);
    } else if (found.value > end_of_block) {
        if (!note_match(found.value, bits, found.bits)) return;
    }
    if (found.value <= end_of_block) now_.at += found.bits;
    state_ = State::running;
    if (found.value == end_of_block) finish_block();
}

bool Lane::note_match(unsigned symbol, std::uint64_t bits, unsigned used) noexcept {
    symbol -= end_of_block + 1;
    if (symbol >= length_base.size()) return false;
    bits >>= used;
    const unsigned length = length_base[symbol] + (static_cast<unsigned>(bits) & ((1U << length_extra[symbol]) - 1));
    bits >>= length_extra[symbol];
    const Symbol far = codes_.distance(bits);
    if (far.bits == 0 || far.value > 29) return false;
    bits >>= far.bits;
    const unsigned extra = far.value < 4 ? 0 : far.value / 2 - 1;
    const unsigned base = far.value < 4 ? far.value : (2 + (far.value & 1)) << extra;
    const unsigned distance = base + (static_cast<unsigned>(bits) & ((1U << extra) - 1)); // less one
    now_.at += used + length_extra[symbol] + far.bits + extra;                            // 48 bits at most
    if (now_.at > std::uint64_t{input_.size()} * 8 || length > capacity_ - now_.size || now_.matches == match_capacity_)
        return false;
    matches_[now_.matches++] = {static_cast<std::uint32_t>(now_.size), static_cast<std::uint16_t>(length),
                                static_cast<std::uint16_t>(distance)};
    now_.size += length;
    return true;
}

void Lane::finish_block() noexcept {
    whole_ = now_;
    state_ = State::boundary;
    if (last_block_) state_ = State::last;
    else if (now_.at < until_) begin_block();
}

void Lane::begin_block() noexcept {
    for (;;) {
        state_ = State::stuck;
        const std::uint64_t end = std::uint64_t{input_.size()} * 8;
        if (now_.at + 3 > end) return;
        const std::uint64_t bits = bits_at(input_, now_.at);
        last_block_ = (bits & 1) != 0;
        now_.at += 3;
        const unsigned kind = bits >> 1 & 3;
        if (kind == 1) {
            codes_.fix();
        } else if (kind == 2) {
            if (!codes_.read(input_, now_.at)) return;
        } else {
            if (kind == 3 || !copy_stored()) return;
            whole_ = now_;
            state_ = last_block_ ? State::last : State::boundary;
            if (last_block_ || now_.at >= until_) return;
            continue;
        }
        state_ = State::running;
        return;
    }
}

bool Lane::copy_stored() noexcept {
    const auto from = static_cast<std::size_t>((now_.at + 7) >> 3);
    if (input_.size() < 4 || from > input_.size() - 4) return false;
    const auto length = load_le<std::uint16_t>(input_.data() + from);
    const auto check = load_le<std::uint16_t>(input_.data() + from + 2);
    if ((length ^ check) != 0xFFFF || length > input_.size() - 4 - from || length > capacity_ - now_.size) return false;
    std::copy_n(input_.data() + from + 4, length, data() + now_.size);
    now_.size += length;
    now_.at = std::uint64_t{from + 4 + length} * 8;
    return true;
}

bool Lane::resolve(Bytes before) noexcept {
    std::copy(before.begin(), before.end(), data() - before.size());
    for (std::size_t i = 0; i < whole_.matches; ++i) {
        const Match& match = matches_[i];
        const std::size_t distance = std::size_t{match.distance} + 1;
        if (distance > match.at + before.size()) return false;
        std::byte* to = data() + match.at;
        const std::byte* from = to - distance;
        if (distance >= match.length) std::copy_n(from, match.length, to);
        else
            for (std::size_t j = 0; j < match.length; ++j) to[j] = from[j];
    }
    return true;
}

Bytes Lane::last_bytes(std::size_t before) const noexcept {
    const std::size_t count = std::min(window_bytes, before + whole_.size);
    return {data() + whole_.size - count, count};
}

} // namespace headrace::deflate

#include "core/engines/zstd/sequences.hpp"

#include <algorithm>

namespace headrace::zstd {

// One of the three numbers of a sequence: for each code a base value, and how many bits are added to it.
struct Sequences::Kind {
    unsigned most_log;
    unsigned codes;
    std::array<std::uint32_t, 53> values;
    std::array<std::uint8_t, 53> extra;
    unsigned default_log; // used by a block without counts of its own
    unsigned default_codes;
    std::array<std::int16_t, 53> default_counts;
};

namespace {

template <std::size_t size>
constexpr std::array<std::uint32_t, 53> sums(std::uint32_t first,
                                             const std::array<std::uint8_t, size>& extra) noexcept {
    std::array<std::uint32_t, 53> values{};
    for (std::size_t i = 0; i < size; ++i) {
        values[i] = first;
        first += 1U << extra[i];
    }
    return values;
}

constexpr std::array<std::uint8_t, 53> literal_extra = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  1,  1,
                                                        1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
constexpr std::array<std::uint8_t, 53> match_extra = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  0,  0, 0,
                                                      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  1,  1,  1, 1,
                                                      2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

constexpr std::array<std::uint32_t, 53> powers() noexcept {
    std::array<std::uint32_t, 53> values{};
    for (unsigned i = 0; i < 32; ++i) values[i] = 1U << i;
    return values;
}

constexpr std::array<std::uint8_t, 53> numbers() noexcept {
    std::array<std::uint8_t, 53> values{};
    for (std::uint8_t i = 0; i < 32; ++i) values[i] = i;
    return values;
}

} // namespace

constinit const Sequences::Kind Sequences::literal_lengths{
    9, 36, sums(0, literal_extra), literal_extra, 6, 36, {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
                                                          2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1}};
constinit const Sequences::Kind Sequences::offsets{8, 32, powers(), numbers(), 5, 29, {1, 1, 1, 1, 1,  1,  2,  2,  2, 1,
                                                                                       1, 1, 1, 1, 1,  1,  1,  1,  1, 1,
                                                                                       1, 1, 1, 1, -1, -1, -1, -1, -1}};
constinit const Sequences::Kind Sequences::match_lengths{
    9, 53, sums(3, match_extra), match_extra, 6, 53, {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                                      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                                      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1}};

namespace {

enum class Mode : std::uint8_t { predefined, run, counted, repeated };

// Copies 16 bytes at a time, up to 15 bytes more than `size`.
HEADRACE_INLINE void copy_rough(std::byte* to, const std::byte* from, std::size_t size) noexcept {
    std::byte* const end = to + size;
    do {
        std::memcpy(to, from, 16);
        to += 16;
        from += 16;
    } while (to < end);
}

// Copies a match byte by byte: it may read what it has just written.
HEADRACE_INLINE void copy_match(std::byte* to, std::size_t offset, std::size_t size) noexcept {
    const std::byte* from = to - offset;
    for (std::size_t i = 0; i < size; ++i) to[i] = from[i];
}

// The same, with room for `slack` more bytes behind the match.
HEADRACE_INLINE void copy_match_rough(std::byte* to, std::size_t offset, std::size_t size) noexcept {
    if (offset >= 16) { // Most matches are shorter than two vectors: copying both takes no branch.
        const std::byte* const from = to - offset;
        std::memcpy(to, from, 16);
        std::memcpy(to + 16, from + 16, 16);
        if (size > 32) copy_rough(to + 32, from + 32, size - 32);
        return;
    }
    if (offset == 1) {
        std::memset(to, std::to_integer<int>(to[-1]), size);
        return;
    }
    // Copies 16 bytes one by one. The rest comes 16 bytes at a time from the nearest repetition that is at least 16
    // bytes back.
    std::byte* const end = to + size;
    const std::size_t period = offset * (15 / offset + 1);
    copy_match(to, offset, std::min<std::size_t>(16, size));
    if (size <= 16) return;
    to += 16;
    do {
        std::memcpy(to, to - period, 16);
        to += 16;
    } while (to < end);
}

// Takes the number of sequences off `section`. False if it is cut off.
bool read_count(Bytes& section, std::size_t& count) noexcept {
    const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(section[i]); };
    if (section.empty()) return false;
    const std::size_t first = byte(0);
    const std::size_t bytes = first < 128 ? 1 : first < 255 ? 2 : 3;
    if (section.size() < bytes) return false;
    count = bytes == 1 ? first : bytes == 2 ? ((first - 128) << 8) + byte(1) : byte(1) + (byte(2) << 8) + 0x7F00;
    section = section.subspan(bytes);
    return true;
}

// The distance of a match: a new one, or one of the last three. 0 if it is unsound.
HEADRACE_INLINE std::size_t distance(std::array<std::size_t, 3>& recent, std::size_t value, bool no_literals) noexcept {
    if (value > 3) {
        recent = {value - 3, recent[0], recent[1]};
        return recent[0];
    }
    const std::size_t which = value - 1 + (no_literals ? 1 : 0);
    if (which == 0) return recent[0];
    const std::size_t found = which == 3 ? recent[0] - 1 : recent[which];
    if (which != 1) recent[2] = recent[1];
    recent[1] = recent[0];
    recent[0] = found;
    return found;
}

struct State {
    const Sequences::Cell* cells;
    const Sequences::Cell* now;

    State(const Sequences::Cell* table, unsigned log, BackwardBits& bits) noexcept
        : cells(table),
          now(table + bits.take(log)) {}
    HEADRACE_INLINE void next(BackwardBits& bits) noexcept { now = cells + now->base + bits.take(now->bits); }
};

} // namespace

void Sequences::reset() noexcept {
    recent_ = {1, 4, 8};
    literal_length_.known = offset_.known = match_length_.known = false;
}

bool Sequences::read_table(Bytes& section, unsigned mode, const Kind& kind, Table& table) noexcept {
    FseCounts counts;
    switch (static_cast<Mode>(mode)) {
    case Mode::repeated: return table.known;
    case Mode::run: {
        if (section.empty()) return false;
        const auto code = std::to_integer<unsigned>(section[0]);
        if (code >= kind.codes) return false;
        table.cells[0] = {0, 0, kind.extra[code], kind.values[code]};
        table.log = 0;
        table.known = true;
        section = section.subspan(1);
        return true;
    }
    case Mode::predefined:
        std::copy(kind.default_counts.begin(), kind.default_counts.end(), counts.of.begin());
        counts.symbols = kind.default_codes;
        counts.log = kind.default_log;
        break;
    case Mode::counted: {
        const std::size_t bytes = read_fse_counts(section, kind.most_log, kind.codes, counts);
        if (bytes == 0) return false;
        section = section.subspan(bytes);
        break;
    }
    }
    std::array<FseCell, std::size_t{1} << most_log> cells;
    build_fse_cells(counts, cells);
    for (std::size_t i = 0; i < std::size_t{1} << counts.log; ++i) {
        const FseCell& cell = cells[i];
        table.cells[i] = {cell.base, cell.bits, kind.extra[cell.symbol], kind.values[cell.symbol]};
    }
    table.log = counts.log;
    table.known = true;
    return true;
}

namespace {

// The number of elements from `from` up to `to`.
std::size_t count_between(const std::byte* from, const std::byte* to) noexcept {
    return static_cast<std::size_t>(to - from);
}

} // namespace

// The sequences of a block, between its tables and its end.
struct Sequences::Run {
    BackwardBits bits;
    State lengths, distances, matches;
    std::size_t count;
    const std::byte* literal;
    const std::byte* literals_end;
    const std::byte* readable_end;
    const std::byte* begin;
    std::byte* to;
    std::byte* end;
    std::array<std::size_t, 3> recent;

    // Compiled for several processors. The bits of one sequence fit two loads of 56 bits, and mostly one.
    HEADRACE_INLINE bool execute() noexcept {
        constexpr unsigned most_state_bits = 9 + 9 + 8;
        constexpr unsigned loaded = 56;
        BackwardBits in = bits;
        State length_state = lengths, distance_state = distances, match_state = matches;
        std::array<std::size_t, 3> recent_distances = recent;
        std::byte* at = to;
        const std::byte* from = literal;
        for (std::size_t left = count;;) {
            if (!in.refill()) return false;
            const unsigned extra = match_state.now->extra + length_state.now->extra; // up to 32
            const unsigned distance_extra = distance_state.now->extra;               // up to 31
            const std::uint64_t value = distance_state.now->value + in.take(distance_extra);
            const bool is_long = distance_extra + extra > loaded - most_state_bits;
            if (is_long) in.refill();
            const std::size_t match = match_state.now->value + in.take(match_state.now->extra);
            const std::size_t length = length_state.now->value + in.take(length_state.now->extra);
            const std::size_t back = distance(recent_distances, value, length == 0);
            const std::size_t room = count_between(at, end);
            if (length > count_between(from, literals_end) || length > room || match > room - length || back == 0 ||
                back > count_between(begin, at) + length)
                return false;
            if (--left != 0) {
                if (is_long) in.refill();
                length_state.next(in);
                match_state.next(in);
                distance_state.next(in);
            }
            if (room - length - match >= slack && count_between(from, readable_end) - length >= 16) {
                copy_rough(at, from, length);
                copy_match_rough(at + length, back, match);
            } else {
                if (length != 0) std::memcpy(at, from, length);
                copy_match(at + length, back, match);
            }
            from += length;
            at += length + match;
            if (left == 0) break;
        }
        literal = from;
        to = at;
        recent = recent_distances;
        return in.left() == 0;
    }

#ifdef HEADRACE_X86
    HEADRACE_FOR_BMI2 bool execute_bmi2() noexcept { return execute(); }
#endif
};

std::size_t Sequences::decompress(Bytes section, Literals literals, const std::byte* begin, std::span<std::byte> target,
                                  [[maybe_unused]] const Cpu& cpu) noexcept {
    std::size_t count = 0;
    if (!read_count(section, count)) return unsound;
    const std::byte* const literals_end = literals.bytes.data() + literals.bytes.size();
    const std::byte* literal = literals.bytes.data();
    std::byte* to = target.data();
    std::byte* const end = to + target.size();
    if (count != 0) {
        if (section.empty()) return unsound;
        const auto modes = std::to_integer<unsigned>(section[0]);
        section = section.subspan(1);
        if ((modes & 3) != 0 || !read_table(section, modes >> 6, literal_lengths, literal_length_) ||
            !read_table(section, modes >> 4 & 3, offsets, offset_) ||
            !read_table(section, modes >> 2 & 3, match_lengths, match_length_))
            return unsound;
        BackwardBits bits;
        if (!bits.open(section)) return unsound;
        const State lengths(literal_length_.cells.data(), literal_length_.log, bits);
        const State distances(offset_.cells.data(), offset_.log, bits);
        const State matches(match_length_.cells.data(), match_length_.log, bits);
        Run run{bits,  lengths, distances, matches, count, literal, literals_end, literal + literals.readable,
                begin, to,      end,       recent_};
#ifdef HEADRACE_X86
        const bool fits = cpu.bmi2 ? run.execute_bmi2() : run.execute();
#else
        const bool fits = run.execute();
#endif
        if (!fits) return unsound;
        recent_ = run.recent;
        literal = run.literal;
        to = run.to;
    } else if (!section.empty()) {
        return unsound;
    }
    const auto rest = count_between(literal, literals_end);
    if (rest > count_between(to, end)) return unsound;
    if (rest != 0) std::memcpy(to, literal, rest);
    return count_between(target.data(), to) + rest;
}

namespace {

// Reads bits upwards from the lowest bit of the first byte. Past the end it gives zeros; see `beyond`.
class ForwardBits {
  public:
    explicit ForwardBits(Bytes from) noexcept : from_(from) {}

    [[nodiscard]] unsigned peek(unsigned count) const noexcept {
        std::uint32_t word = 0;
        const std::size_t first = at_ / 8;
        if (first + sizeof word <= from_.size()) word = load_le<std::uint32_t>(from_.data() + first);
        else if (first < from_.size()) std::memcpy(&word, from_.data() + first, from_.size() - first);
        return word >> (at_ % 8) & ((1U << count) - 1);
    }

    void skip(unsigned count) noexcept { at_ += count; }

    [[nodiscard]] std::size_t taken() const noexcept { return (at_ + 7) / 8; }
    [[nodiscard]] bool beyond() const noexcept { return taken() > from_.size(); }

  private:
    Bytes from_;
    std::size_t at_ = 0;
};

constexpr unsigned least_log = 5;

// Reads a number up to `most`. It takes as many bits as `most` needs; small numbers take one less.
unsigned read_at_most(ForwardBits& bits, unsigned most) noexcept {
    const auto width = static_cast<unsigned>(std::bit_width(most));
    const unsigned short_mask = (1U << (width - 1)) - 1;
    const unsigned shorter = (1U << width) - 1 - most;
    const unsigned value = bits.peek(width);
    if ((value & short_mask) < shorter) {
        bits.skip(width - 1);
        return value & short_mask;
    }
    bits.skip(width);
    return value > short_mask ? value - shorter : value;
}

} // namespace

std::size_t read_fse_counts(Bytes from, unsigned most_log, unsigned most_symbols, FseCounts& counts) noexcept {
    ForwardBits bits(from);
    counts.log = bits.peek(4) + least_log;
    bits.skip(4);
    if (counts.log > most_log) return 0;
    int left = 1 << counts.log;
    unsigned symbol = 0;
    while (left > 0) {
        if (symbol == most_symbols || bits.beyond()) return 0;
        const int count = static_cast<int>(read_at_most(bits, static_cast<unsigned>(left) + 1)) - 1;
        counts.of[symbol++] = static_cast<std::int16_t>(count);
        left -= count < 0 ? 1 : count;
        for (unsigned more = count == 0 ? 3 : 0;
             more == 3;) { // the number of symbols after it that do not occur either
            more = bits.peek(2);
            bits.skip(2);
            if (symbol + more > most_symbols || bits.beyond()) return 0;
            for (unsigned i = 0; i < more; ++i) counts.of[symbol++] = 0;
        }
    }
    counts.symbols = symbol;
    return bits.beyond() ? 0 : bits.taken();
}

void build_fse_cells(const FseCounts& counts, std::span<FseCell> cells) noexcept {
    const std::size_t size = std::size_t{1} << counts.log, mask = size - 1, step = (size >> 1) + (size >> 3) + 3;
    std::array<std::uint16_t, 256> next;
    std::size_t last = size; // The cells from here on belong to rare symbols.
    for (unsigned symbol = 0; symbol < counts.symbols; ++symbol) {
        const int count = counts.of[symbol];
        next[symbol] = static_cast<std::uint16_t>(count < 0 ? 1 : count);
        if (count < 0) cells[--last].symbol = static_cast<std::uint8_t>(symbol);
    }
    std::size_t at = 0;
    for (unsigned symbol = 0; symbol < counts.symbols; ++symbol) {
        for (int i = 0; i < counts.of[symbol]; ++i) {
            cells[at].symbol = static_cast<std::uint8_t>(symbol);
            do at = (at + step) & mask;
            while (at >= last);
        }
    }
    for (FseCell& cell : cells.first(size)) {
        const unsigned number = next[cell.symbol]++;
        const unsigned bits = counts.log + 1 - static_cast<unsigned>(std::bit_width(number));
        cell.bits = static_cast<std::uint8_t>(bits);
        cell.base = static_cast<std::uint16_t>((number << bits) - size);
    }
}

} // namespace headrace::zstd

#include "core/zstd_fse.hpp"

#include <algorithm>

namespace headrace::zstd {
namespace {

// Bits from the lowest of the first byte on. Behind the end there are zeros; `taken` tells.
class ForwardBits {
  public:
    explicit ForwardBits(Bytes from) noexcept : from_(from) {}

    [[nodiscard]] unsigned peek(unsigned count) const noexcept {
        std::uint32_t word = 0;
        const std::size_t first = at_ / 8;
        if (first + sizeof word <= from_.size())
            word = load_le<std::uint32_t>(from_.data() + first);
        else if (first < from_.size())
            std::memcpy(&word, from_.data() + first, from_.size() - first);
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

// A number of at most `most`, in as many bits as that needs; the smallest ones in one less.
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
        for (unsigned more = count == 0 ? 3 : 0; more == 3;) { // how many others do not come either
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
    std::size_t last = size; // From here on: symbols that hardly come.
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

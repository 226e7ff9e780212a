#include "core/engines/jpeg/entropy.hpp"

#include <algorithm>
#include <random>

#include "check.hpp"

using namespace headrace;
using namespace headrace::jpeg;
using namespace headrace::testing;

namespace {

/// Rewinding and rereading gives the same bits.
void bits_rewind() {
    std::vector<std::byte> bytes(64);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
    for (unsigned skipped = 0; skipped < 40; ++skipped) {
        for (unsigned back = 1; back <= std::min(skipped, 11U); ++back) {
            Bits straight{bytes.data()};
            straight.refill();
            straight.drop(skipped - back);
            Bits bits{bytes.data()};
            bits.refill();
            bits.drop(skipped);
            bits.rewind(back);
            check(bits.consumed(bytes.data()) == straight.consumed(bytes.data()));
            bits.refill();
            straight.refill();
            check(bits.next >> 8 == straight.next >> 8);
        }
    }
}

// A random code: its lengths are the depths of the leaves of a random tree. All ones is not a code (ITU T.81, annex C).
Codes random_codes(std::mt19937& random, bool is_ac) {
    std::vector<unsigned> leaves = {1, 1};
    const std::size_t wanted = 2 + random() % 160;
    while (leaves.size() < wanted) {
        const std::size_t at = random() % 3 == 0 ? leaves.size() - 1 : random() % leaves.size();
        if (leaves[at] == 16) continue;
        leaves.push_back(++leaves[at]);
    }
    leaves.erase(std::max_element(leaves.begin(), leaves.end()));
    Codes codes;
    for (const unsigned length : leaves) ++codes.counts[length - 1];
    for (std::size_t i = 0; i < codes.symbols.size(); ++i)
        codes.symbols[i] = static_cast<std::uint8_t>((is_ac ? random() % 16 << 4 : 0) | random() % 11);
    return codes;
}

struct Found {
    unsigned bits = 0;
    std::uint8_t symbol = 0;
};

// Finds the code at the start of some bits, following the standard.
Found find_plainly(const Codes& codes, std::uint64_t bits) {
    unsigned code = 0, place = 0;
    for (unsigned length = 1; length <= 16; ++length) {
        const unsigned count = codes.counts[length - 1];
        const auto next = static_cast<unsigned>(bits >> (64 - length));
        if (next >= code && next - code < count) return {length, codes.symbols[place + next - code]};
        place += count;
        code = (code + count) << 1;
    }
    return {};
}

int value_of(unsigned size, std::uint64_t bits) {
    if (size == 0) return 0;
    const auto magnitude = static_cast<int>(bits >> (64 - size));
    return (bits >> 63) != 0 ? magnitude : magnitude - (1 << size) + 1;
}

// Compares every table lookup with the code.
template <bool is_ac> void lookups_match_the_code() {
    std::mt19937 random(1);
    std::mt19937_64 words(2);
    for (int round = 0; round < 30; ++round) {
        const Codes codes = random_codes(random, is_ac);
        CodeTable<is_ac> table;
        const bool is_short = round % 4 < 2;
        table.build(codes, is_short);
        check(table.width() == (is_short ? few_bits : table.index_bits));
        if (round % 3 == 0) { // The same codes again make a whole table; after that nothing changes.
            table.build(codes, is_short);
            table.build(codes, is_short);
            check(table.width() == table.index_bits);
        }
        for (int i = 0; i < 4000; ++i) {
            const std::uint64_t word = words();
            const Found wanted = find_plainly(codes, word);
            Entry entry = table.next(word);
            const unsigned size = wanted.symbol & 15;
            const bool is_seen = wanted.bits != 0 && wanted.bits + std::min(size, 1U) <= table.width();
            check(entry.is_longer() == !is_seen);
            std::array<std::byte, 16> bytes{};
            for (std::size_t at = 0; at < 8; ++at) bytes[at] = static_cast<std::byte>(word >> (56 - 8 * at));
            Bits bits{bytes.data()};
            bits.refill();
            if (entry.is_longer()) bits = table.longer(bits, entry);
            check((entry.step == 64) == (wanted.bits == 0));
            if (wanted.bits == 0) continue;
            check(table.alone(word).bits == wanted.bits + size);
            check(table.alone(word).second == value_of(size, word << wanted.bits));
            const auto last = static_cast<std::int16_t>(consume(entry, entry.bits, bits));
            const bool is_alone = entry.second_step == 0;
            check((is_alone ? last : entry.first) == value_of(size, word << wanted.bits));
            const auto consumed = static_cast<unsigned>(bits.consumed(bytes.data()));
            check(entry.bits <= 21 && bits.next >> 32 == word << consumed >> 32);
            if (is_alone) {
                check(consumed == wanted.bits + size);
                continue;
            }
            const std::uint64_t rest = word << (wanted.bits + size);
            const Found second = find_plainly(codes, rest);
            const unsigned second_size = second.symbol & 15;
            check(is_ac && last == value_of(second_size, rest << second.bits));
            check(consumed == wanted.bits + size + second.bits + second_size);
        }
    }
}

void scans_become_stretches() {
    Stretches stretches;
    check(stretches.fill(from_hex("11 ff00 22 ffd0 33 ffd1 44 ffd9")) == 10 && stretches.marker == 0xD9);
    check(stretches.ends == std::vector<std::size_t>{3, 4, 5});
    check(std::equal(stretches.bytes.begin(), stretches.bytes.begin() + 5, from_hex("11 ff 22 33 44").begin()));
    check(stretches.bytes.size() >= 5 + Stretches::room);
    check(stretches.fill(from_hex("11 22 ffc4 33 ffd9")) == 2 && stretches.marker == 0xC4);
    // No marker after the scan; a restart marker out of order.
    for (const char* scan : {"", "11", "11 ff", "11 ff00", "11 ffd1 22 ffd9", "11 ffd0 22 ffd0 33 ffd9"})
        check(stretches.fill(from_hex(scan)) == 0, scan);
}

} // namespace

int main() {
    bits_rewind();
    lookups_match_the_code<false>();
    lookups_match_the_code<true>();
    scans_become_stretches();
}

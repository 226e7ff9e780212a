#include "core/engines/zstd/sequences.hpp"

#include <algorithm>
#include <string>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;
using namespace headrace::zstd;

namespace {

// Bytes with eight readable ones before them.
struct Behind {
    std::vector<std::byte> all = std::vector<std::byte>(8);
    explicit Behind(const std::vector<std::byte>& bytes) { all.insert(all.end(), bytes.begin(), bytes.end()); }
    [[nodiscard]] Bytes bytes() const { return Bytes(all).subspan(8); }
};

void bits_are_read_backwards() {
    const Behind stream(from_hex("b5 06")); // 10 101 10101 after the marker
    BackwardBits bits;
    check(bits.open(stream.bytes()) && bits.left() == 10);
    check(bits.take(2) == 2 && bits.take(0) == 0 && bits.take(3) == 5);
    check(bits.left() == 5 && bits.take(5) == 0x15 && bits.left() == 0 && bits.refill());
    static_cast<void>(bits.take(9));
    check(bits.left() == -9);
    static_cast<void>(bits.take(47));
    check(!bits.refill() || bits.left() < 0);
    check(!bits.open({}) && !bits.open(Behind(from_hex("01 00")).bytes()));
}

// RFC 8878, appendix A.1: the first states of the predefined table of literal lengths.
void states_match_the_standard() {
    FseCounts counts;
    const std::int16_t usual[] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
                                  2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
    std::copy(std::begin(usual), std::end(usual), counts.of.begin());
    counts.symbols = 36;
    counts.log = 6;
    std::array<FseCell, 64> cells;
    build_fse_cells(counts, cells);
    const unsigned first[][3] = {{0, 4, 0}, {0, 4, 16}, {1, 5, 32}, {3, 5, 0},
                                 {4, 5, 0}, {6, 5, 0},  {7, 5, 0},  {9, 5, 0}};
    for (std::size_t i = 0; i < 8; ++i)
        check(cells[i].symbol == first[i][0] && cells[i].bits == first[i][1] && cells[i].base == first[i][2]);
    check(cells[63].symbol == 32 && cells[63].bits == 6 && cells[63].base == 0);
}

void counts_are_read_forwards() {
    FseCounts counts;
    // A log of 5, with all of it for symbol 0: the value 33 of at most 33, in six bits.
    check(read_fse_counts(from_hex("10 02"), 6, 12, counts) == 0); // 32 + 1 is 100001, which is truncated
    for (unsigned first = 0; first < 256; ++first)
        for (unsigned second = 0; second < 256; ++second) {
            const std::vector<std::byte> bytes = {static_cast<std::byte>(first), static_cast<std::byte>(second),
                                                  std::byte{0x55}, std::byte{0x2A}};
            FseCounts found;
            const std::size_t size = read_fse_counts(bytes, 6, 12, found);
            if (size == 0) continue;
            check(size <= 4 && found.log >= 5 && found.log <= 6 && found.symbols <= 12);
            int sum = 0;
            for (unsigned i = 0; i < found.symbols; ++i) sum += found.of[i] < 0 ? 1 : found.of[i];
            check(sum == 1 << found.log);
        }
    check(read_fse_counts({}, 9, 36, counts) == 0 && read_fse_counts(from_hex("0f"), 9, 36, counts) == 0);
}

std::string decompress(Sequences& sequences, const char* section, std::string_view literals, std::size_t room,
                       std::string before = "") {
    const Behind held(from_hex(section));
    std::string out = before + std::string(room, '?');
    const std::span<std::byte> all = std::as_writable_bytes(std::span(out));
    const std::size_t size = sequences.decompress(held.bytes(), {bytes_of(literals), literals.size()}, all.data(),
                                                  all.subspan(before.size()));
    return size == Sequences::unsound ? "unsound" : out.substr(before.size(), size);
}

// 54: each of the three tables has one code. The codes of literal length, offset and match length follow.
void test_blocks() {
    Sequences sequences;
    sequences.reset();
    check(decompress(sequences, "00", "abc", 9) == "abc");
    check(decompress(sequences, "00", "abc", 2) == "unsound");
    check(decompress(sequences, "00 00", "abc", 9) == "unsound");
    check(decompress(sequences, "", "abc", 9) == "unsound");
    // Three literals, offset 6 - 3, a match of length three, one literal.
    check(decompress(sequences, "01 54 03 02 00 06", "abcX", 20) == "abcabcX");
    check(decompress(sequences, "01 54 03 02 00 06", "abcX", 7) == "abcabcX");
    check(decompress(sequences, "01 54 03 02 00 06", "abcX", 6) == "unsound");
    check(decompress(sequences, "01 54 03 02 00 06", "ab", 20) == "unsound");   // too few literals
    check(decompress(sequences, "01 54 03 02 00 0c", "abcX", 20) == "unsound"); // a surplus bit
    check(decompress(sequences, "01 54 03 02 00 01", "abcX", 20) == "unsound"); // a missing bit
    check(decompress(sequences, "01 54 03 02 00 00", "abcX", 20) == "unsound"); // no stream
    check(decompress(sequences, "01 55 03 02 00 06", "abcX", 20) == "unsound"); // reserved bits
    check(decompress(sequences, "01 54 03 20 00 06", "abcX", 20) == "unsound"); // no such offset
    check(decompress(sequences, "01 54 03 02", "abcX", 20) == "unsound" &&
          decompress(sequences, "01", "", 9) == "unsound");
    check(decompress(sequences, "01 54 03 02 00 07", "abcX", 20) == "unsound"); // offset 4, before the start
    check(decompress(sequences, "01 54 03 02 00 07", "abcX", 20, "yz") == "abczabX");
}

// The next block can use the tables and last offsets of the previous one.
void tables_and_offsets_carry_over_between_blocks() {
    Sequences sequences;
    sequences.reset();
    check(decompress(sequences, "01 fc 06", "abcX", 20) == "unsound"); // No table yet.
    check(decompress(sequences, "01 54 03 02 00 06", "abcX", 20) == "abcabcX");
    check(decompress(sequences, "01 fc 06", "defX", 20) == "defdefX");
    // Offset code 0 is the last offset, 3. Without literals, it is the one before that: 3 too, then 1.
    check(decompress(sequences, "01 54 03 00 00 01", "ghiX", 20) == "ghighiX");
    check(decompress(sequences, "01 54 00 00 00 01", "Y", 20, "jkl") == "jklY");
    check(decompress(sequences, "01 54 00 01 00 02", "Y", 20, "m") == "mmmY");      // the third most recent offset
    check(decompress(sequences, "01 54 00 01 00 03", "Y", 20, "opq") == "unsound"); // the latest less one: 0
    sequences.reset();
    check(decompress(sequences, "01 54 01 01 00 02", "aX", 20, "wxyz") == "axyzX" ||
          decompress(sequences, "01 fc 02", "aX", 20, "wxyz") == "unsound");
}

// Matches of every distance and length, which may overlap their own output.
void test_matches_of_every_shape() {
    for (std::size_t distance = 1; distance <= 40; ++distance) {
        std::string before;
        for (std::size_t i = 0; i < distance; ++i) before += static_cast<char>('A' + i);
        // Offset code 5 with five bits, or a smaller one: value = distance + 3.
        const std::size_t value = distance + 3;
        unsigned code = 0;
        while (value >> (code + 1) != 0) ++code;
        const auto extra = static_cast<unsigned>(value - (std::size_t{1} << code)) | 1U << code; // with the marker
        for (unsigned length = 3; length < 35; ++length) {
            char section[32];
            std::snprintf(section, sizeof section, "01 54 00 %02x %02x %02x", code, length - 3, extra);
            std::string wanted;
            for (std::size_t i = 0; i < length; ++i) wanted += before[i % distance];
            for (const std::size_t room : {std::size_t{length}, std::size_t{length + 100}}) {
                Sequences sequences;
                sequences.reset();
                check(decompress(sequences, section, "", room, before) == wanted, section);
            }
        }
    }
}

} // namespace

int main() {
    bits_are_read_backwards();
    states_match_the_standard();
    counts_are_read_forwards();
    test_blocks();
    tables_and_offsets_carry_over_between_blocks();
    test_matches_of_every_shape();
}

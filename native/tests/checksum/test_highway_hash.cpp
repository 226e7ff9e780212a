#include "core/checksum/highway_hash.hpp"

#include "base/cpus.hpp"
#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

// The block header and signature chunk header of every Riegeli file: two hashes from the reference implementation.
void test_constants_of_the_format() {
    for (const Cpu& cpu : runnable_cpus()) {
        check(riegeli_hash(from_hex("0000000000000000 4000000000000000"), cpu) == 0x3f4a880dd170af83);
        check(riegeli_hash(from_hex("0000000000000000 e19f13c0e9b1c372 7300000000000000 0000000000000000"), cpu) ==
              0xa9e187923cc2ba91);
        check(riegeli_hash({}, cpu) == 0x72c3b1e9c0139fe1);
    }
}

void every_cpu_hashes_every_length() {
    std::vector<std::byte> data(300);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 37 + (i >> 3));
    for (std::size_t size = 0; size <= data.size(); ++size) {
        const Bytes part = Bytes(data).first(size);
        const Bytes other = Bytes(data).last(data.size() - size / 2);
        const std::uint64_t hash = riegeli_hash(part, Cpu{}), other_hash = riegeli_hash(other, Cpu{});
        for (const Cpu& cpu : runnable_cpus()) {
            check(riegeli_hash(part, cpu) == hash);
            check(riegeli_hash_pair(part, other, cpu) == std::array{hash, other_hash});
            check(riegeli_hash_pair(other, part, cpu) == std::array{other_hash, hash});
        }
    }
}

// Inputs of all sizes, cut at all kinds of places, several at a time.
void many_hash_like_each() {
    std::vector<std::byte> data(700);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 91 + (i >> 1));
    constexpr std::array<std::size_t, 9> sizes = {300, 0, 257, 31, 32, 33, 256, 288, 64};
    std::vector<std::vector<Bytes>> cut;
    std::vector<std::uint64_t> expected;
    for (std::size_t round = 0; round < 300; ++round) {
        const Bytes input = Bytes(data).subspan(round, sizes[round * (1 + round / 9) % sizes.size()]);
        std::vector<Bytes>& pieces = cut.emplace_back();
        for (std::size_t at = 0, step = round % 5 * 37; at < input.size(); at += pieces.back().size()) {
            if (round % 7 == 0) pieces.push_back({});
            pieces.push_back(input.subspan(at, std::min(step == 0 ? 400 : step + at % 11, input.size() - at)));
        }
        expected.push_back(riegeli_hash(input, Cpu{}));
        if (cut.size() > 9) {
            cut.erase(cut.begin());
            expected.erase(expected.begin());
        }
        const std::vector<Pieces> inputs(cut.begin(), cut.end());
        for (const Cpu& cpu : runnable_cpus()) {
            std::vector<std::uint64_t> found(inputs.size());
            riegeli_hash_many(inputs, found, cpu);
            check(found == expected);
        }
    }
}

void pieces_hash_like_the_whole() {
    std::vector<std::byte> data(200);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 59 + (i >> 2));
    const Bytes all(data);
    for (std::size_t size = 0; size <= data.size(); size += 3) {
        const std::uint64_t hash = riegeli_hash(all.first(size), Cpu{});
        for (std::size_t first = 0; first <= size; first += 7) {
            for (std::size_t second = first; second <= size; second += 13) {
                const std::array<Bytes, 4> pieces = {all.first(first), Bytes{}, all.subspan(first, second - first),
                                                     all.subspan(second, size - second)};
                for (const Cpu& cpu : runnable_cpus()) check(riegeli_hash_pieces(pieces, cpu) == hash);
            }
        }
    }
}

void every_bit_changes_the_hash() {
    std::vector<std::byte> data(67);
    const std::uint64_t before = riegeli_hash(data);
    for (std::size_t bit = 0; bit < data.size() * 8; ++bit) {
        data[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        check(riegeli_hash(data) != before);
        data[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    }
}

} // namespace

int main() {
    test_constants_of_the_format();
    every_cpu_hashes_every_length();
    many_hash_like_each();
    pieces_hash_like_the_whole();
    every_bit_changes_the_hash();
}

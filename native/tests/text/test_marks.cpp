#include "core/text/marks.hpp"

#include <random>
#include <vector>

#include "base/cpus.hpp"
#include "check.hpp"

using namespace headrace;
using headrace::testing::check;
using headrace::testing::runnable_cpus;

namespace {

void test_every_byte() {
    std::mt19937 random(1);
    for (std::size_t blocks = 0; blocks < 5; ++blocks) {
        std::vector<char> text(blocks * block_bytes);
        for (int round = 0; round < 200; ++round) {
            const unsigned few = round % 2 == 0 ? 256 : 4; // neighbours differ in one bit, or in all
            for (char& byte : text) byte = static_cast<char>(random() % few + (round % 4 < 2 ? 0 : 0x7E));
            const Marks marks{static_cast<char>(random()), text.empty() ? 'x' : text[0], '\0', '\x80'};
            for (const Cpu& cpu : runnable_cpus()) {
                std::vector<MarkMasks> found(blocks);
                find_marks(text.data(), blocks, marks, found.data(), cpu);
                for (std::size_t i = 0; i < text.size(); ++i)
                    for (std::size_t k = 0; k < marks.size(); ++k)
                        check((found[i / block_bytes].of[k] >> i % block_bytes & 1) == (text[i] == marks[k]));
            }
        }
    }
}

void test_between() {
    static_assert(between_marks(0) == 0 && between_marks(1) == ~std::uint64_t{0});
    static_assert(between_marks(0b100100) == 0b011100 && between_marks(0b11) == 1);
    check(between_marks(std::uint64_t{1} << 63) == std::uint64_t{1} << 63);
    std::mt19937_64 random(5);
    for (int round = 0; round < 1000; ++round) {
        std::vector<std::uint64_t> marks(random() % 5);
        for (std::uint64_t& mask : marks)
            mask = random() % 4 == 0 ? random() : std::uint64_t{random() % 4 == 0} << random() % 64;
        for (const Cpu& cpu : runnable_cpus()) {
            std::vector<std::uint64_t> found(marks.size());
            find_between(marks.data(), marks.size(), found.data(), cpu);
            for (std::size_t k = 0; k < marks.size(); ++k) check(found[k] == between_marks(marks[k]));
        }
    }
}

void test_places() {
    std::mt19937_64 random(4);
    for (int round = 0; round < 3000; ++round) {
        std::vector<std::uint64_t> masks(random() % 5);
        for (std::uint64_t& mask : masks) {
            mask = random();
            for (unsigned k = random() % 8; k != 0; --k) mask &= random(); // few bits, too
            if (random() % 16 == 0) mask = ~std::uint64_t{0};
        }
        const auto first = static_cast<std::uint32_t>(random() % 1000);
        std::vector<std::uint32_t> expected;
        for (std::size_t i = 0; i < masks.size() * block_bytes; ++i)
            if ((masks[i / block_bytes] >> i % block_bytes & 1) != 0)
                expected.push_back(first + static_cast<std::uint32_t>(i));
        for (const Cpu& cpu : runnable_cpus()) {
            std::vector<std::uint32_t> found(expected.size() + spare_places);
            found.resize(static_cast<std::size_t>(put_places(masks.data(), masks.size(), first, found.data(), cpu) -
                                                  found.data()));
            check(found == expected);
            check(count_places(masks.data(), masks.size(), cpu) == expected.size());
        }
    }
}

} // namespace

int main() {
    test_places();
    test_every_byte();
    test_between();
}

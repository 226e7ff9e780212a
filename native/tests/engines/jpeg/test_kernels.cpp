#include "core/engines/jpeg/kernels.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "base/cpus.hpp"
#include "check.hpp"
#include "core/engines/jpeg/header.hpp"

using namespace headrace;
using namespace headrace::jpeg;
using namespace headrace::testing;

namespace {

/// Both kinds of kernels must give identical results for any coefficients.
void kernels_agree(const Kernels& plain, const Kernels& vector) {
    std::mt19937 random(1);
    alignas(32) std::array<std::int16_t, 64> first, second;
    alignas(32) std::array<std::uint16_t, 64> steps;
    for (int round = 0; round < 3000; ++round) {
        const int range = 1 << (1 + round % 15);
        for (std::size_t i = 0; i < 64; ++i) {
            first[i] = static_cast<std::int16_t>(static_cast<int>(random() % static_cast<unsigned>(2 * range)) - range);
            second[i] = i < 1 + random() % 64 ? first[i] : std::int16_t{0};
            steps[i] = static_cast<std::uint16_t>(1 + random() % 255);
        }
        if (round % 4 == 0)
            std::fill(first.begin() + 8, first.end(), std::int16_t{0}); // only the first row, often too large to shift
        if (round % 8 == 0) std::fill(second.begin() + 8, second.end(), std::int16_t{0});
        std::array<std::uint8_t, 256> a{}, b{};
        plain.transform({first.data(), steps.data(), a.data(), 16}, {second.data(), steps.data(), a.data() + 8, 16});
        vector.transform({first.data(), steps.data(), b.data(), 16}, {second.data(), steps.data(), b.data() + 8, 16});
        check(a == b, "transform");
        std::array<Block, 4> blocks;
        std::array<std::uint8_t, 256> c{}, d{};
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            blocks[i] = {(i + static_cast<std::size_t>(round)) % 3 == 0 ? first.data() : second.data(), steps.data(),
                         c.data() + i % 2 * 8 + i / 2 * 128, 16};
        }
        const FourBlocks four{&blocks[0], &blocks[1], &blocks[2], &blocks[3]};
        vector.transform_four(four);
        for (Block& block : blocks) block.out = d.data() + (block.out - c.data());
        plain.transform_four(four);
        check(c == d, "transform_four");
        for (auto* each : {&first, &second}) {
            const std::array<std::int16_t, 64> all = *each;
            each->fill(0);
            for (std::size_t k = 0; k < low_coefficients; ++k) (*each)[zigzag[k]] = all[zigzag[k]];
        }
        plain.transform_low(four);
        for (Block& block : blocks) block.out = c.data() + (block.out - d.data());
        vector.transform_low(four);
        check(c == d, "transform_low");
    }
    for (std::size_t columns = 1; columns < 70; ++columns) {
        std::array<std::array<std::uint8_t, 256>, 3> rows;
        for (auto& row : rows)
            for (auto& sample : row)
                sample = static_cast<std::uint8_t>(columns % 3 == 0 ? random() % 2 * 255 : random());
        std::array<std::uint8_t, 256> a{}, b{};
        plain.widen(rows[0].data() + 32, columns, a.data());
        vector.widen(rows[0].data() + 32, columns, b.data());
        check(a == b, "widen");
        plain.widen_two(rows[0].data() + 32, rows[1].data() + 32, columns, a.data());
        vector.widen_two(rows[0].data() + 32, rows[1].data() + 32, columns, b.data());
        check(a == b, "widen_two");
    }
    std::vector<std::uint8_t> y(70), cb(70), cr(70), a(210), b(210);
    for (unsigned chroma = 0; chroma < 65536; ++chroma) { // every chroma value, at some luma
        const std::size_t columns = 1 + chroma % 33;
        for (std::size_t i = 0; i < 70; ++i) {
            y[i] = static_cast<std::uint8_t>(chroma * 7 + i * 31);
            cb[i] = static_cast<std::uint8_t>((chroma >> 8) + i);
            cr[i] = static_cast<std::uint8_t>(chroma + i);
        }
        plain.colours(y.data(), cb.data(), cr.data(), columns, a.data());
        vector.colours(y.data(), cb.data(), cr.data(), columns, b.data());
        check(a == b, "colours");
    }
}

/// A block with only a DC coefficient must equal the result of the full transform.
void flat_blocks_match_the_transform(const Kernels& kernels) {
    for (int mean = -32768; mean <= 32767; ++mean) {
        alignas(32) std::array<std::int16_t, 64> coefficients{};
        alignas(32) std::array<std::uint16_t, 64> steps;
        steps.fill(1);
        coefficients[0] = static_cast<std::int16_t>(mean);
        std::array<std::uint8_t, 64> a{}, b{};
        const Block whole{coefficients.data(), steps.data(), a.data(), 8};
        kernels.transform(whole, whole);
        kernels.flat({coefficients.data(), steps.data(), b.data(), 8});
        check(a == b, "flat");
    }
}

} // namespace

int main() {
    check(vector_kernels(Cpu{}) == nullptr);
    check(vector_kernels(Cpu{.bmi2 = true}) == nullptr && vector_kernels(Cpu{.avx2 = true}) == nullptr);
    check(plain_kernels().cpu == Cpu{});
    flat_blocks_match_the_transform(plain_kernels());
    for (const Cpu& cpu : runnable_cpus()) {
        const Kernels* const vector = vector_kernels(cpu);
        if (vector == nullptr) continue;
        check(vector->cpu.bmi2 && vector->cpu.avx2 && vector->cpu.pext == cpu.pext && vector->cpu.vbmi == cpu.vbmi);
        kernels_agree(plain_kernels(), *vector);
        flat_blocks_match_the_transform(*vector);
    }
}

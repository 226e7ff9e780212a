#include "core/protobuf/short_varints.hpp"

#include <memory>
#include <random>

#include "check.hpp"
#include "core/base/cpu.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

struct Run {
    std::vector<std::byte> bytes;
    std::vector<std::uint64_t> numbers;
    std::vector<std::size_t> ends; ///< Of each number.
    std::size_t first_long = SIZE_MAX;
};

/// Numbers of `least` to `most` bytes; `longer` is the place of one of five bytes.
Run run_of(std::mt19937_64& random, std::size_t count, unsigned least, unsigned most, std::size_t longer = SIZE_MAX) {
    Run run;
    for (std::size_t i = 0; i < count; ++i) {
        const unsigned size = i == longer ? 5 : least + static_cast<unsigned>(random() % (most - least + 1));
        const std::uint64_t high = size == 1 ? 0 : std::uint64_t{1} << 7 * (size - 1);
        std::uint64_t rest = high | (random() & ((std::uint64_t{1} << 7 * size) - 1));
        run.numbers.push_back(rest);
        for (; rest >= 0x80; rest >>= 7) run.bytes.push_back(static_cast<std::byte>(rest | 0x80));
        run.bytes.push_back(static_cast<std::byte>(rest));
        run.ends.push_back(run.bytes.size());
    }
    run.first_long = longer;
    return run;
}

/// In memory without spare bytes, so that AddressSanitizer finds every access outside.
void decodes(const Run& run, std::size_t first, std::size_t room) {
    const std::size_t size = run.bytes.size(), skipped = first == 0 ? 0 : run.ends[first - 1];
    const auto bytes = std::make_unique<std::byte[]>(size);
    std::ranges::copy(run.bytes, bytes.get());
    const auto out = std::make_unique<std::byte[]>(room * 8);
    const auto [count, next] = proto::decode_short_varints({bytes.get(), size}, bytes.get() + skipped, out.get(), room);
    if (count > room) return check(room < run.numbers.size() - first);
    check(first + count <= std::min(run.first_long, run.numbers.size()));
    check(static_cast<std::size_t>(next - bytes.get()) == (first + count == 0 ? 0 : run.ends[first + count - 1]));
    for (std::size_t i = 0; i < count; ++i) check(load_le<std::uint64_t>(out.get() + i * 8) == run.numbers[first + i]);
}

void test_every_size_and_start() {
    std::mt19937_64 random(1);
    for (unsigned least = 1; least <= 4; ++least)
        for (unsigned most = least; most <= 4; ++most)
            for (std::size_t count = 64; count < 140; ++count) {
                const Run run = run_of(random, count, least, most);
                for (const std::size_t first : {std::size_t{0}, std::size_t{1}, count / 2, count - 1, count})
                    decodes(run, first, count - first);
            }
    for (const std::size_t count : {1000U, 1024U, 1100U, 5000U}) decodes(run_of(random, count, 1, 4), 0, count);
}

void test_all_are_decoded() {
    std::mt19937_64 random(2);
    const Run run = run_of(random, 3000, 2, 4);
    std::vector<std::byte> out(run.numbers.size() * 8);
    const auto found = proto::decode_short_varints(run.bytes, run.bytes.data(), out.data(), run.numbers.size());
    check(found.count == run.numbers.size() && found.next == run.bytes.data() + run.bytes.size());
}

void test_no_room() {
    std::mt19937_64 random(3);
    const Run run = run_of(random, 200, 1, 4);
    for (std::size_t room = 0; room < 200; ++room) decodes(run, 0, room);
}

void test_longer_ones_end_it() {
    std::mt19937_64 random(4);
    for (unsigned most = 1; most <= 4; ++most)
        for (std::size_t longer = 0; longer < 200; ++longer) decodes(run_of(random, 200, 1, most, longer), 0, 200);
}

} // namespace

int main() {
#if defined(HEADRACE_X86)
    if (!this_cpu.avx2) return 0;
    test_every_size_and_start();
    test_all_are_decoded();
    test_no_room();
    test_longer_ones_end_it();
#endif
}

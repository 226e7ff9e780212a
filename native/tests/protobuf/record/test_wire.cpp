#include "core/protobuf/record/wire.hpp"

#include <vector>

#include "check.hpp"

using namespace headrace;
using namespace headrace::sagemaker;
using namespace headrace::testing;

namespace {

void test_varints_of_every_length() {
    for (unsigned bits = 0; bits <= 64; ++bits) {
        for (const std::uint64_t number :
             {bits == 64 ? UINT64_MAX : (std::uint64_t{1} << bits) - 1, std::uint64_t{1} << (bits % 64)}) {
            std::vector<std::byte> bytes(40, std::byte{0xFF});
            std::byte* to = bytes.data();
            for (int k = 0; k < 3; ++k) to = proto::write_varint(to, number);
            std::vector<std::uint64_t> found;
            each_varint({Bytes(bytes.data(), to)}, [&](std::uint64_t value) { found.push_back(value); });
            check(found == std::vector<std::uint64_t>(3, number));
        }
    }
}

void test_runs_of_varints_of_one_length() {
    std::uint32_t state = 7;
    const auto random = [&] { return (state = state * 1664525 + 1013904223) >> 8; };
    for (int turn = 0; turn < 2000; ++turn) {
        std::vector<std::uint64_t> numbers;
        while (numbers.size() < 40) {
            const unsigned bits = turn % 2 == 0 ? 7 * (1 + random() % 4) : random() % 65;
            const std::size_t length = 1 + random() % 12;
            for (std::size_t i = 0; i < length; ++i) {
                const std::uint64_t wide = std::uint64_t{random()} << 40 ^ std::uint64_t{random()} << 20 ^ random();
                numbers.push_back(
                    bits == 0 ? 0 : (wide | std::uint64_t{1} << 63) >> (64 - bits)); // The highest bit is set.
            }
        }
        numbers.resize(random() % numbers.size());
        std::vector<std::byte> bytes(10 * numbers.size());
        std::byte* to = bytes.data();
        for (const std::uint64_t number : numbers) to = proto::write_varint(to, number);
        const std::size_t size = static_cast<std::size_t>(to - bytes.data());
        const std::vector<std::byte> exact(
            bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)); // Sanitizers see its end.
        std::vector<std::uint64_t> found;
        each_varint({bytes_of(exact)}, [&](std::uint64_t value) { found.push_back(value); });
        check(found == numbers);
        if (numbers.empty() || numbers.back() < 0x80) continue;
        found.clear();
        check(fault_of([&] {
                  each_varint({bytes_of(exact).first(size - 1)}, [&](std::uint64_t value) { found.push_back(value); });
              }).fault == Fault::truncated);
        numbers.pop_back();
        check(found == numbers, "all before the one that does not end");
    }
}

} // namespace

int main() {
    test_varints_of_every_length();
    test_runs_of_varints_of_one_length();
}

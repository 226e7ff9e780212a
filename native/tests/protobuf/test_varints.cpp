#include "core/protobuf/varints.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <random>

#include "base/cpus.hpp"
#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

using Numbers = std::vector<std::uint64_t>;

constexpr std::size_t longest = 10; // bytes of a varint

/// Decodes one byte at a time; nothing for a run that ends within a varint or holds an overlong one.
std::optional<Numbers> decode_slowly(Bytes run) {
    Numbers numbers;
    std::uint64_t value = 0;
    unsigned size = 0;
    for (const std::byte each : run) {
        const auto byte = std::to_integer<std::uint64_t>(each);
        if (size == longest) return std::nullopt;
        value |= (byte & 0x7F) << 7 * size++;
        if (byte >= 0x80) continue;
        numbers.push_back(value);
        value = 0, size = 0;
    }
    return size == 0 ? std::optional(numbers) : std::nullopt;
}

/// A copy without spare bytes around it, so that AddressSanitizer finds every read outside.
struct Tight {
    explicit Tight(Bytes bytes) : memory(std::make_unique<std::byte[]>(bytes.size())), size(bytes.size()) {
        std::ranges::copy(bytes, memory.get());
    }
    [[nodiscard]] Bytes bytes() const { return {memory.get(), size}; }

    std::unique_ptr<std::byte[]> memory;
    std::size_t size;
};

std::size_t decode(Bytes run, std::size_t room, Numbers& numbers, const Cpu& cpu) {
    const auto to = std::make_unique<std::byte[]>(room * 8);
    const std::size_t count = proto::decode_varints(run, to.get(), room, cpu);
    numbers.clear();
    if (count == proto::irregular) return count;
    check(count <= room);
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(load_le<std::uint64_t>(to.get() + i * 8));
    return count;
}

void same_on_every_cpu(Bytes bytes) {
    const Tight tight(bytes);
    const Bytes run = tight.bytes();
    const auto expected = decode_slowly(run);
    const auto ends = static_cast<std::size_t>(
        std::ranges::count_if(run, [](std::byte byte) { return std::to_integer<int>(byte) < 0x80; }));
    std::byte one[8] = {};
    const bool is_one = proto::decode_one(run, one);
    check(is_one == (run.size() <= 3 && expected && expected->size() == 1));
    if (is_one) check(load_le<std::uint64_t>(one) == expected->front());
    Numbers numbers;
    for (const Cpu& cpu : runnable_cpus()) {
        check(proto::count_varints(run, cpu) == ends);
        if (!expected) {
            check(decode(run, run.size(), numbers, cpu) == proto::irregular);
            continue;
        }
        for (const std::size_t room : {ends, run.size()})
            check(decode(run, room, numbers, cpu) == ends && numbers == *expected);
        if (ends != 0) check(decode(run, ends - 1, numbers, cpu) == proto::irregular);
    }
}

std::vector<std::byte> encode_slowly(const Numbers& numbers) {
    std::vector<std::byte> out;
    for (std::uint64_t number : numbers) {
        for (; number >= 0x80; number >>= 7) out.push_back(static_cast<std::byte>(number | 0x80));
        out.push_back(static_cast<std::byte>(number));
    }
    return out;
}

/// Numbers of `least` to `most` bytes.
Numbers numbers_of(std::mt19937_64& random, std::size_t count, unsigned least, unsigned most) {
    Numbers numbers;
    for (std::size_t i = 0; i < count; ++i) {
        const unsigned bytes = least + static_cast<unsigned>(random() % (most - least + 1));
        const unsigned bits = std::min(7 * bytes, 64U);
        const std::uint64_t high = std::uint64_t{1} << (bytes == 10 ? 63 : bits - 1);
        numbers.push_back((random() & (bits == 64 ? UINT64_MAX : (std::uint64_t{1} << bits) - 1)) | high);
    }
    return numbers;
}

std::vector<std::byte> write(const Numbers& numbers, std::size_t size, std::size_t room, const Cpu& cpu) {
    const auto block = std::make_unique<std::byte[]>(room);
    const auto* const from = reinterpret_cast<const std::byte*>(numbers.data());
    const std::byte* const end =
        proto::write_varints(block.get(), block.get() + size, block.get() + room, from, numbers.size(), cpu);
    check(end == block.get() + size);
    return {block.get(), block.get() + size};
}

void there_and_back(const Numbers& numbers) {
    const auto expected = encode_slowly(numbers);
    same_on_every_cpu(bytes_of(expected));
    const auto* const from = reinterpret_cast<const std::byte*>(numbers.data());
    for (const Cpu& cpu : runnable_cpus()) {
        check(proto::varints_size(from, numbers.size(), cpu) == expected.size());
        for (const std::size_t more : {std::size_t{0}, longest * numbers.size()}) {
            const std::size_t room = expected.size() + more;
            check(write(numbers, expected.size(), room, cpu) == expected);
            if (numbers.empty()) continue;
            const FormatError fault = fault_of([&] { (void)write(numbers, expected.size() - 1, room, cpu); });
            check(fault.fault == Fault::changed);
        }
    }
}

void test_every_size_and_count() {
    std::mt19937_64 random(15);
    for (unsigned least = 1; least <= longest; ++least)
        for (unsigned most = least; most <= longest; ++most)
            for (const std::size_t count : {0U, 1U, 2U, 3U, 5U, 7U, 8U, 9U, 16U, 31U, 33U, 63U, 64U, 65U, 200U})
                there_and_back(numbers_of(random, count, least, most));
    for (std::size_t count = 0; count < 150; ++count) there_and_back(Numbers(count, count));
    there_and_back({0, 1, 0x7F, 0x80, 0x3FFF, 0x4000, UINT64_MAX, INT64_MAX, std::uint64_t{1} << 63});
}

void test_long_values_among_short_ones() {
    for (const std::uint64_t large : {std::uint64_t{300}, std::uint64_t{1} << 56, UINT64_MAX})
        for (std::size_t at = 0; at < 90; ++at) {
            Numbers numbers(90, 5);
            numbers[at] = large;
            there_and_back(numbers);
        }
}

/// Windows of 64 bytes with any number of varints, that end anywhere within one, and longer ones anywhere among them.
void test_runs_of_up_to_three_bytes() {
    std::mt19937_64 random(18);
    for (std::size_t count = 20; count < 300; ++count)
        for (const unsigned least : {1U, 2U, 3U}) there_and_back(numbers_of(random, count, least, 3));
    for (const unsigned bytes : {4U, 5U, 10U})
        for (std::size_t at = 0; at < 150; ++at) {
            Numbers numbers = numbers_of(random, 150, 1 + at % 3, 3);
            numbers[at] = numbers_of(random, 1, bytes, bytes).front();
            there_and_back(numbers);
        }
}

void every_truncation_is_a_fault() {
    std::mt19937_64 random(16);
    for (const unsigned most : {1U, 3U, 10U}) {
        const auto run = encode_slowly(numbers_of(random, 60, 1, most));
        for (std::size_t begin = 0; begin < std::min<std::size_t>(run.size(), 12); ++begin)
            for (std::size_t size = 0; begin + size <= run.size(); ++size)
                same_on_every_cpu(Bytes(run).subspan(begin, size));
    }
}

void test_unusual_encodings() {
    // Ten bytes may hold more than 64 bits, and a value may take more bytes than it needs. Eleven bytes are a fault.
    same_on_every_cpu(bytes_of(from_hex("ffffffffffffffffff7f")));
    same_on_every_cpu(bytes_of(from_hex("80808080808080808000 8000 8080808000")));
    for (const std::size_t before : {0U, 3U, 30U, 31U, 40U, 70U})
        for (const std::size_t marked : {8U, 9U, 10U, 11U, 40U, 100U})
            for (const std::size_t after : {0U, 1U, 9U, 50U}) {
                std::vector<std::byte> run(before, std::byte{1});
                run.insert(run.end(), marked, std::byte{0xFF});
                run.push_back(std::byte{1});
                run.insert(run.end(), after, std::byte{2});
                same_on_every_cpu(bytes_of(run));
            }
    std::mt19937_64 random(17);
    for (int round = 0; round < 3000; ++round) {
        std::vector<std::byte> run(random() % 120);
        const std::uint64_t share = random() % 8; // of bytes with a mark, in eighths
        for (std::byte& byte : run)
            byte = static_cast<std::byte>((random() & 0x7F) | (random() % 8 < share ? 0x80U : 0U));
        same_on_every_cpu(bytes_of(run));
    }
}

} // namespace

int main() {
    test_every_size_and_count();
    test_long_values_among_short_ones();
    test_runs_of_up_to_three_bytes();
    every_truncation_is_a_fault();
    test_unusual_encodings();
}

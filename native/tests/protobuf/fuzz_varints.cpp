// Decodes arbitrary bytes as a packed run with and without the processor's features, and encodes the result again.
#include <cstdlib>
#include <vector>

#include "core/protobuf/varints.hpp"

using namespace headrace;

namespace {

void check(bool good) {
    if (!good) std::abort();
}

struct Decoded {
    std::size_t count;
    std::vector<std::byte> numbers;
};

Decoded decode(Bytes run, std::size_t room, const Cpu& cpu) {
    std::vector<std::byte> numbers(room * 8);
    const std::size_t count = proto::decode_varints(run, numbers.data(), room, cpu);
    numbers.resize(count == proto::irregular ? 0 : count * 8);
    return {count, numbers};
}

void there_and_back(const Decoded& decoded, const Cpu& cpu) {
    const std::byte* const numbers = decoded.numbers.data();
    const std::size_t size = proto::varints_size(numbers, decoded.count, cpu);
    check(size == proto::varints_size(numbers, decoded.count, Cpu{}));
    for (const std::size_t spare : {std::size_t{0}, decoded.count * 10}) {
        std::vector<std::byte> run(size + spare);
        std::byte* const end = run.data() + size;
        check(proto::write_varints(run.data(), end, run.data() + run.size(), numbers, decoded.count, cpu) == end);
        const Decoded back = decode({run.data(), size}, decoded.count, cpu);
        check(back.count == decoded.count && back.numbers == decoded.numbers);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes run(reinterpret_cast<const std::byte*>(data), size);
    const std::size_t ends = proto::count_varints(run, Cpu{});
    check(ends == proto::count_varints(run));
    for (const std::size_t room : {size, ends, ends / 2}) {
        const Decoded plain = decode(run, room, Cpu{}), fast = decode(run, room, this_cpu);
        check(plain.count == fast.count && plain.numbers == fast.numbers);
        if (plain.count == proto::irregular) continue;
        there_and_back(plain, Cpu{});
        there_and_back(plain, this_cpu);
    }
    return 0;
}

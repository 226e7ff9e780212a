#include "core/protobuf/example/encode.hpp"

#include "check.hpp"
#include "protobuf/example/samples.hpp"

using namespace headrace;
using namespace headrace::testing;
using example::Kind;

namespace {

const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);

void encoding_is_canonical() {
    const std::int64_t numbers[] = {1, -1, 300};
    example::Source source;
    source.name = "i";
    source.kind = Kind::int64;
    source.count = 3;
    source.numbers = reinterpret_cast<const std::byte*>(numbers);
    source.number_count = 3;
    const auto encoded = example::encode({source}, 1, 12, 4, 1, pool);
    const auto expected = from_hex(packed);
    check(encoded.starts[0] == 12 && encoded.sizes[0] == static_cast<std::int64_t>(expected.size()) &&
          encoded.size == expected.size() + 16);
    check(std::memcmp(encoded.block.data() + 12, expected.data(), expected.size()) == 0);
    source.number_count = 4;
    check(fault_of([&] { (void)example::encode({source}, 1, 12, 4, 1, pool); }).fault == Fault::wrong_count);
}

void payloads_share_one_block() {
    const float numbers[] = {1.5F, -2.0F};
    example::Source list;
    list.name = "s";
    list.kind = Kind::float32;
    list.list = true;
    list.count = 1;
    list.numbers = reinterpret_cast<const std::byte*>(numbers);
    list.number_count = 2;
    list.steps = {0, 2, 2};
    const auto encoded = example::encode({list}, 2, 12, 4, 4, pool);
    Spans spans;
    for (int i = 0; i < 2; ++i) {
        check(encoded.starts[static_cast<std::size_t>(i)] % 4 == 0);
        spans.payloads.emplace_back(encoded.block.data() + encoded.starts[static_cast<std::size_t>(i)],
                                    static_cast<std::size_t>(encoded.sizes[static_cast<std::size_t>(i)]));
    }
    check(std::to_integer<int>(spans.payloads[0][0]) == 0x12); // No empty context before the feature lists.
    const example::Decoder decoder({spec("s", Kind::float32, 1, true)});
    const auto columns = decoder.decode(spans, pool);
    check(columns[0].steps == std::vector<std::int64_t>{0, 2, 2} && columns[0].number_count == 2);
    check(std::memcmp(columns[0].numbers.data(), numbers, sizeof numbers) == 0);
}

} // namespace

int main() {
    encoding_is_canonical();
    payloads_share_one_block();
}

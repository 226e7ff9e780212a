#include "core/protobuf/record/encode.hpp"

#include "check.hpp"
#include "protobuf/record/samples.hpp"

using namespace headrace;
using namespace headrace::sagemaker;
using namespace headrace::testing;

namespace {

const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);

std::string_view text_of(const proto::Payloads& encoded, std::size_t i) {
    return {reinterpret_cast<const char*>(encoded.block.data() + encoded.starts[i]),
            static_cast<std::size_t>(encoded.sizes[i])};
}

void encoding_matches_the_sdk() {
    const std::vector<float> rows{1, 2, 1, 2}, labels{3, 3}, entries{7, 8};
    Source features{.place = Place::feature, .key = "values", .kind = Kind::float32, .count = 2};
    features.numbers = reinterpret_cast<const std::byte*>(rows.data()), features.number_count = 4;
    Source scores{.place = Place::label, .key = "values", .kind = Kind::float32, .count = 1};
    scores.numbers = reinterpret_cast<const std::byte*>(labels.data()), scores.number_count = 2;
    const proto::Payloads encoded = encode({scores, features}, 2, 8, 0, 4, pool);
    const auto expected = from_hex(dense_f32);
    for (std::size_t i = 0; i < 2; ++i)
        check(text_of(encoded, i) == std::string_view(reinterpret_cast<const char*>(expected.data()), expected.size()));
    check(encoded.starts == std::vector<std::int64_t>{8, 8 + 44 + 8} && encoded.size == 2 * 52);

    const std::vector<std::int64_t> offsets{0, 2, 2};
    const std::vector<std::int32_t> keys{1, 3};
    Source sparse{.place = Place::feature, .key = "values", .kind = Kind::float32, .count = -1, .offsets = offsets};
    sparse.numbers = reinterpret_cast<const std::byte*>(entries.data()), sparse.number_count = 2;
    sparse.sparse = true, sparse.keys = reinterpret_cast<const std::byte*>(keys.data()), sparse.key_count = 2,
    sparse.width = 4;
    const std::vector<float> ones{1, 1};
    scores.numbers = reinterpret_cast<const std::byte*>(ones.data());
    const proto::Payloads rows_of_csr = encode({sparse, scores}, 2, 0, 0, 1, pool);
    const auto full = from_hex(sparse_f32), empty = from_hex(sparse_empty);
    check(text_of(rows_of_csr, 0) == std::string_view(reinterpret_cast<const char*>(full.data()), full.size()));
    check(text_of(rows_of_csr, 1) == std::string_view(reinterpret_cast<const char*>(empty.data()), empty.size()));

    sparse.width = 3;
    check(fault_of([&] { (void)encode({sparse}, 2, 0, 0, 1, pool); }).fault == Fault::range);
    features.number_count = 3;
    check(fault_of([&] { (void)encode({features}, 2, 0, 0, 1, pool); }).fault == Fault::wrong_count);
}

} // namespace

int main() { encoding_matches_the_sdk(); }

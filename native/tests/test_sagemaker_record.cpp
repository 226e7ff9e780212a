#include <algorithm>
#include <cstring>

#include "check.hpp"
#include "core/protobuf/record/decode.hpp"
#include "core/protobuf/record/encode.hpp"
#include "core/protobuf/record/scan.hpp"

using namespace headrace;
using namespace headrace::sagemaker;
using headrace::testing::bytes_of;
using headrace::testing::check;
using headrace::testing::fault_of;
using headrace::testing::from_hex;

namespace {

const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);

// Payloads that the SageMaker SDK's writers made, without their frames.
constexpr auto dense_f32 = "0a160a0676616c756573120c120a0a080000803f00000040 12120a0676616c756573120812060a0400004040";
constexpr auto dense_f64 = "0a1e0a0676616c756573 1214 1a12 0a10 000000000000f03f0000000000000040";
constexpr auto dense_i32 =
    "0a1b0a0676616c756573 1211 3a0f 0a0d 01ffffffffffffffffff01ac02 120f0a0676616c756573 1205 3a03 0a01 05";
constexpr auto sparse_f32 =
    "0a1d0a0676616c756573 1213 1211 0a080000e04000000041 12020103 1a0104 12120a0676616c756573120812060a040000803f";
constexpr auto sparse_empty = "0a0f0a0676616c756573 12051203 1a0104 12120a0676616c756573120812060a040000803f";

Spec values(Kind kind, Layout layout, std::int64_t count, std::vector<std::int64_t> shape = {}) {
    return {Place::feature, "values", kind, layout, count, std::move(shape), true};
}

const Spec label{Place::label, "values", Kind::float32, Layout::fixed, 1, {}, true};

std::vector<Column> decode(std::vector<Spec> specs, const std::vector<std::vector<std::byte>>& payloads) {
    Spans spans;
    for (const auto& payload : payloads) spans.payloads.push_back(bytes_of(payload));
    return Decoder(std::move(specs)).decode(spans, pool);
}

template <typename T> std::vector<T> numbers(const Column& column) {
    std::vector<T> out(column.number_count);
    if (!out.empty()) std::memcpy(out.data(), column.numbers.data(), out.size() * sizeof(T));
    return out;
}

Fault fault_with(Spec spec, std::string_view hex) {
    const FormatError error = fault_of([&] { (void)decode({std::move(spec)}, {from_hex(hex)}); });
    check(error.record == 0);
    return error.fault;
}

void what_the_sdk_writes() {
    auto columns = decode({values(Kind::float32, Layout::fixed, 2), label}, {from_hex(dense_f32), from_hex(dense_f32)});
    check(numbers<float>(columns[0]) == std::vector<float>{1, 2, 1, 2});
    check(numbers<float>(columns[1]) == std::vector<float>{3, 3});
    check(numbers<double>(decode({values(Kind::float64, Layout::fixed, 2)}, {from_hex(dense_f64)})[0]) ==
          std::vector<double>{1, 2});
    check(numbers<std::int32_t>(decode({values(Kind::int32, Layout::fixed, 3)}, {from_hex(dense_i32)})[0]) ==
          std::vector<std::int32_t>{1, -1, 300});
    const auto sparse = decode({values(Kind::float32, Layout::sparse, 4), label},
                               {from_hex(sparse_f32), from_hex(sparse_empty), from_hex(sparse_f32)});
    check(sparse[0].offsets == std::vector<std::int64_t>{0, 2, 2, 4});
    check(numbers<float>(sparse[0]) == std::vector<float>{7, 8, 7, 8});
    check(!sparse[0].wide && reinterpret_cast<const std::int32_t*>(sparse[0].keys.data())[3] == 3);
    const auto any = decode({values(Kind::float32, Layout::sparse, -1)}, {from_hex(sparse_f32)});
    check(any[0].wide && any[0].width == 4);
}

void other_legal_forms() {
    const auto two = [](std::string_view hex) {
        return numbers<float>(decode({values(Kind::float32, Layout::fixed, 2)}, {from_hex(hex)})[0]) ==
               std::vector<float>{1, 2};
    };
    check(two("0a1b0a0676616c7565731211120f0d0000803f15000000000d00000040"),
          "not packed, and a field of another wire type between");
    check(two("0a180a0676616c756573120e120c0a040000803f0a0400000040"), "in two pieces");
    check(two("0a1c0a0676616c756573120812060a040000803f120812060a0400000040"),
          "in an entry with two values, which are merged");
    check(two("0a1c120c120a0a080000803f000000400a0676616c7565731a04deadbeef"),
          "the key behind the value, and an unknown field");
    check(
        two("0a1a0a0676616c7565731210120e0a0c0000104100001041000010410a160a0676616c756573120c120a0a080000803f00000040"),
        "the last entry with a key wins whole");
    check(two("0a1a0a0676616c756573121012060a040000803f12060a0400000040"), "two tensors of one kind are merged");
    check(two("0a220a0676616c75657312181a0a0a080000000000001440120a0a080000803f00000040"),
          "another kind takes the place of the first");
    check(two("1a03756964330801340a160a0676616c756573120c120a0a080000803f000000402a027b7d"),
          "an unknown group and strings around it");
    check(two("0a180a0676616c756573120e120c0a000a080000803f00000040"), "an empty piece");
    const auto integers =
        decode({values(Kind::int32, Layout::fixed, 3)},
               {from_hex("0a230a0676616c75657312193a1708ffffffff0f08ffffffffffffffffff01088780808010")});
    check(numbers<std::int32_t>(integers[0]) == std::vector<std::int32_t>{-1, -1, 7},
          "the lower half of a number counts");
}

void faults() {
    const Spec two = values(Kind::float32, Layout::fixed, 2);
    check(fault_with(values(Kind::float64, Layout::fixed, 2), dense_f32) == Fault::wrong_kind);
    check(fault_with(values(Kind::float32, Layout::fixed, 3), dense_f32) == Fault::wrong_count);
    check(fault_with(two, sparse_f32) == Fault::wrong_shape);
    check(fault_with(two, sparse_empty) == Fault::wrong_shape);
    check(fault_with(values(Kind::float32, Layout::sparse, 4), dense_f32) == Fault::wrong_shape);
    check(fault_with(values(Kind::float32, Layout::sparse, 5), sparse_f32) == Fault::wrong_shape);
    check(fault_with(two, "") == Fault::missing);
    check(fault_with(two, "0a08 0a0676616c756573") == Fault::missing);
    check(fault_with(values(Kind::float32, Layout::sparse, 4),
                     "0a1c 0a0676616c756573 1212 1210 0a080000e04000000041 120101 1a0104") == Fault::tensor);
    check(fault_with(values(Kind::float32, Layout::sparse, 4),
                     "0a1d 0a0676616c756573 1213 1211 0a080000e04000000041 12020104 1a0104") == Fault::range);
    check(fault_with(values(Kind::float32, Layout::sparse, 4),
                     "0a1a 0a0676616c756573 1210 120e 0a080000e04000000041 12020103") == Fault::tensor);
    check(fault_with(two, "0a19 0a0676616c756573 120f120d 0a080000803f00000040 1a0103") == Fault::tensor);
    check(fault_with(two, "0a17 0a0676616c756573 120d120b 0a090000803f0000004000") == Fault::wire);
    for (std::size_t size = 1; size < from_hex(dense_f32).size(); ++size) {
        auto cut = from_hex(dense_f32);
        cut.resize(size);
        if (size == 24) continue; // Between the two entries: a whole Record without a label.
        check(!is_record(bytes_of(cut)));
        (void)fault_of([&] { (void)decode({two, label}, {cut}); });
    }
}

void shapes() {
    constexpr auto two_by_one = "0a1a 0a0676616c756573 1210120e 0a080000803f00000040 1a020201";
    check(numbers<float>(decode({values(Kind::float32, Layout::fixed, 2, {2, 1})}, {from_hex(two_by_one)})[0]).size() ==
          2);
    check(numbers<float>(decode({values(Kind::float32, Layout::fixed, 2, {2})}, {from_hex(two_by_one)})[0]).size() == 2,
          "flat is asked for");
    check(fault_with(values(Kind::float32, Layout::fixed, 2, {1, 2}), two_by_one) == Fault::wrong_shape);
    check(numbers<float>(decode({values(Kind::float32, Layout::fixed, 2, {1, 2})}, {from_hex(dense_f32)})[0]).size() ==
              2,
          "no shape in the record");
    const auto varying = decode({values(Kind::float32, Layout::varying, -1, {-1, -1})}, {from_hex(two_by_one)});
    check(varying[0].shapes == std::vector<std::int64_t>{2, 1} &&
          varying[0].offsets == std::vector<std::int64_t>{0, 2});
    check(fault_with(values(Kind::float32, Layout::varying, -1, {-1, -1}), dense_f32) == Fault::wrong_shape);
    const auto derived = decode({values(Kind::float32, Layout::varying, -1, {-1, 2})}, {from_hex(dense_f32)});
    check(derived[0].shapes == std::vector<std::int64_t>{1, 2});
}

void absent_ones() {
    Spec two = values(Kind::float32, Layout::fixed, 2);
    two.required = false;
    const Spec uid{Place::uid, "", Kind::none, Layout::text, 1, {}, false};
    const auto columns = decode({two, uid}, {from_hex(dense_f32), from_hex("1a0141")});
    check(columns[0].absent == std::vector<std::int64_t>{1} &&
          numbers<float>(columns[0]) == std::vector<float>{1, 2, 0, 0});
    check(columns[1].absent == std::vector<std::int64_t>{0} && columns[1].texts[1].size() == 1);
}

void the_reading_that_is_a_record() {
    const auto good = from_hex(dense_f32);
    const auto bad = from_hex("0a16 0a0676616c7565");
    Spans spans;
    spans.payloads = {bytes_of(bad), bytes_of(good), bytes_of(good)};
    spans.alternatives = {{0, bytes_of(good)}, {2, bytes_of(bad)}};
    check(Decoder({values(Kind::float32, Layout::fixed, 2)}).decode(spans, pool)[0].number_count == 6);
    Scanner scanner;
    scanner.add(spans);
    check(scanner.strangers() == 0 && scanner.records() == 3);
}

void growing_far_beyond_the_guess() {
    std::vector<std::vector<std::byte>> payloads(300, from_hex(sparse_empty));
    payloads.insert(payloads.end(), 300, from_hex(sparse_f32));
    const auto columns = decode({values(Kind::float32, Layout::sparse, 4)}, payloads);
    const auto all = numbers<float>(columns[0]);
    check(all.size() == 600 && std::count(all.begin(), all.end(), 7.0F) == 300 &&
          std::count(all.begin(), all.end(), 8.0F) == 300);
}

void every_length_of_a_varint() {
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

void runs_of_varints_of_one_length() {
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

std::string_view text_of(const Encoded& encoded, std::size_t i) {
    return {reinterpret_cast<const char*>(encoded.block.data() + encoded.starts[i]),
            static_cast<std::size_t>(encoded.sizes[i])};
}

void encoding_gives_the_bytes_of_the_sdk() {
    const std::vector<float> rows{1, 2, 1, 2}, labels{3, 3}, entries{7, 8};
    Source features{.place = Place::feature, .key = "values", .kind = Kind::float32, .count = 2};
    features.numbers = reinterpret_cast<const std::byte*>(rows.data()), features.number_count = 4;
    Source scores{.place = Place::label, .key = "values", .kind = Kind::float32, .count = 1};
    scores.numbers = reinterpret_cast<const std::byte*>(labels.data()), scores.number_count = 2;
    const Encoded encoded = encode({scores, features}, 2, 8, 0, 4, pool);
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
    const Encoded rows_of_csr = encode({sparse, scores}, 2, 0, 0, 1, pool);
    const auto full = from_hex(sparse_f32), empty = from_hex(sparse_empty);
    check(text_of(rows_of_csr, 0) == std::string_view(reinterpret_cast<const char*>(full.data()), full.size()));
    check(text_of(rows_of_csr, 1) == std::string_view(reinterpret_cast<const char*>(empty.data()), empty.size()));

    sparse.width = 3;
    check(fault_of([&] { (void)encode({sparse}, 2, 0, 0, 1, pool); }).fault == Fault::range);
    features.number_count = 3;
    check(fault_of([&] { (void)encode({features}, 2, 0, 0, 1, pool); }).fault == Fault::wrong_count);
}

void facts() {
    Scanner scanner;
    const auto dense = from_hex(dense_f32), sparse = from_hex(sparse_f32), empty = from_hex(sparse_empty);
    Spans spans;
    spans.payloads = {bytes_of(dense), bytes_of(sparse), bytes_of(empty)};
    scanner.add(spans);
    const KeyFacts& found = scanner.keys().at(0);
    check(found.place == Place::feature && found.key == "values" && found.records == 3 && found.held[1] == 3);
    check(found.sparse == 1 && found.shape_only == 1 && found.fewest == 2 && found.most == 2 && found.shaped == 2 &&
          found.widest == 4 && found.sound);
    check(scanner.keys().at(1).place == Place::label && scanner.keys().at(1).records == 3);
}

} // namespace

int main() {
    what_the_sdk_writes();
    other_legal_forms();
    faults();
    shapes();
    absent_ones();
    the_reading_that_is_a_record();
    growing_far_beyond_the_guess();
    every_length_of_a_varint();
    runs_of_varints_of_one_length();
    encoding_gives_the_bytes_of_the_sdk();
    facts();
}

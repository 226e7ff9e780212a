#include "core/protobuf/record/decode.hpp"

#include <algorithm>
#include <cstring>

#include "check.hpp"
#include "core/protobuf/record/rows.hpp"
#include "core/protobuf/record/scan.hpp"
#include "protobuf/record/samples.hpp"

using namespace headrace;
using namespace headrace::sagemaker;
using namespace headrace::testing;

namespace {

const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);

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

void test_records_of_the_sdk() {
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

void test_other_valid_encodings() {
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

void test_faults() {
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
        if (size == 24) continue; // Between the two entries: a valid Record without a label.
        check(!is_record(bytes_of(cut)));
        (void)fault_of([&] { (void)decode({two, label}, {cut}); });
    }
}

void test_shapes() {
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

void test_absent_features() {
    Spec two = values(Kind::float32, Layout::fixed, 2);
    two.required = false;
    const Spec uid{Place::uid, "", Kind::none, Layout::text, 1, {}, false};
    const auto columns = decode({two, uid}, {from_hex(dense_f32), from_hex("1a0141")});
    check(columns[0].absent == std::vector<std::int64_t>{1} &&
          numbers<float>(columns[0]) == std::vector<float>{1, 2, 0, 0});
    check(columns[1].absent == std::vector<std::int64_t>{0} && columns[1].texts[1].size() == 1);
}

void test_is_record() {
    const auto good = from_hex(dense_f32);
    const auto bad = from_hex("0a16 0a0676616c7565");
    Spans spans;
    spans.payloads = {bytes_of(bad), bytes_of(good), bytes_of(good)};
    spans.alternatives = {{0, bytes_of(good)}, {2, bytes_of(bad)}};
    check(Decoder({values(Kind::float32, Layout::fixed, 2)}).decode(spans, pool)[0].number_count == 6);
    Scanner scanner;
    scanner.add(spans);
    check(scanner.rejected() == 0 && scanner.records() == 3);
}

void columns_grow_far_beyond_the_estimate() {
    std::vector<std::vector<std::byte>> payloads(300, from_hex(sparse_empty));
    payloads.insert(payloads.end(), 300, from_hex(sparse_f32));
    const auto columns = decode({values(Kind::float32, Layout::sparse, 4)}, payloads);
    const auto all = numbers<float>(columns[0]);
    check(all.size() == 600 && std::count(all.begin(), all.end(), 7.0F) == 300 &&
          std::count(all.begin(), all.end(), 8.0F) == 300);
}

void add_varint(std::vector<std::byte>& to, std::uint64_t number) {
    for (; number >= 0x80; number >>= 7) to.push_back(static_cast<std::byte>(number | 0x80));
    to.push_back(static_cast<std::byte>(number));
}

void add_field(std::vector<std::byte>& to, std::uint64_t field, const std::vector<std::byte>& content) {
    add_varint(to, field << 3 | 2);
    add_varint(to, content.size());
    to.insert(to.end(), content.begin(), content.end());
}

// A record of a sparse tensor of this width whose keys are packed in one piece, or in two.
std::vector<std::byte> with_keys(const std::vector<std::uint64_t>& keys, std::uint64_t width, bool whole) {
    std::vector<std::byte> first, second, shape, tensor, value, entry, record;
    for (std::size_t i = 0; i < keys.size(); ++i) add_varint(whole || i < keys.size() / 2 ? first : second, keys[i]);
    add_varint(shape, width);
    add_field(tensor, 1, std::vector<std::byte>(4 * keys.size()));
    add_field(tensor, 2, first);
    if (!whole) add_field(tensor, 2, second);
    add_field(tensor, 3, shape);
    add_field(value, 2, tensor);
    add_field(entry, 1, from_hex("76616c756573"));
    add_field(entry, 2, value);
    add_field(record, 1, entry);
    return record;
}

void check_keys(const std::vector<std::uint64_t>& keys, std::uint64_t width, std::int64_t count) {
    const Spec spec = values(Kind::float32, Layout::sparse, count);
    const auto plain = with_keys(keys, width, false), many = with_keys(keys, width, true);
    std::vector<Column> expected;
    try {
        expected = decode({spec}, {plain});
    } catch (const FormatError& fault) {
        const FormatError found = fault_of([&] { (void)decode({spec}, {many}); });
        check(found.fault == fault.fault && found.expected == fault.expected && found.found == fault.found);
        return;
    }
    const std::vector<Column> columns = decode({spec}, {many, many});
    const Column& column = columns[0];
    const std::size_t item = size_of_key(column), size = keys.size() * item;
    check(column.wide == expected[0].wide && column.number_count == 2 * keys.size());
    for (const std::size_t from : {std::size_t{0}, size})
        check(std::memcmp(column.keys.data() + from, expected[0].keys.data(), size) == 0);
    for (std::size_t i = 0; i < keys.size(); ++i)
        check((item == 8 ? load_le<std::uint64_t>(column.keys.data() + i * 8)
                         : load_le<std::uint32_t>(column.keys.data() + i * 4)) == keys[i]);
}

void many_keys_match_single_ones() {
    std::uint64_t state = 1;
    for (std::size_t turn = 0; turn < 600; ++turn) {
        const unsigned bits = 1 + turn % 63;
        const std::uint64_t width = std::uint64_t{1} << bits;
        std::vector<std::uint64_t> keys(2 + turn % 150);
        for (std::uint64_t& key : keys) {
            state = state * 6364136223846793005 + 1442695040888963407;
            key = state >> (64 - bits) >> (state & 7);
        }
        check_keys(keys, width - 1, -1); // Some keys may be one too large.
        check_keys(keys, width, bits < 31 ? static_cast<std::int64_t>(width) : -1);
        keys[turn % keys.size()] = turn % 3 == 0 ? width : turn % 3 == 1 ? UINT64_MAX : std::uint64_t{1} << 63;
        check_keys(keys, width, -1);
    }
}

} // namespace

int main() {
    many_keys_match_single_ones();
    test_records_of_the_sdk();
    test_other_valid_encodings();
    test_faults();
    test_shapes();
    test_absent_features();
    test_is_record();
    columns_grow_far_beyond_the_estimate();
}

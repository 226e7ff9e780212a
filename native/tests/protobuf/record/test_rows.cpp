#include <atomic>
#include <cstring>
#include <new>
#include <thread>

#include "check.hpp"
#include "core/protobuf/record/rows.hpp"

using namespace headrace;
using namespace headrace::sagemaker;
using headrace::testing::bytes_of;
using headrace::testing::check;
using headrace::testing::fault_of;
using headrace::testing::from_hex;

namespace {

const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);

std::vector<std::size_t> cuts_of(const std::vector<std::size_t>& sizes, std::size_t most, std::size_t least_bytes) {
    const std::vector<std::byte> bytes(1000);
    std::vector<Bytes> payloads;
    for (const std::size_t size : sizes) payloads.emplace_back(bytes.data(), size);
    return cut_rows(payloads, most, least_bytes);
}

void rows_are_cut_where_half_of_the_bytes_are() {
    using Cuts = std::vector<std::size_t>;
    check(cuts_of({}, 4, 1) == Cuts{0, 0});
    check(cuts_of({10, 10, 10, 10}, 2, 1) == Cuts{0, 2, 4});
    check(cuts_of({10, 10, 10, 10}, 1, 1) == Cuts{0, 4});
    check(cuts_of({10, 10, 10, 10}, 0, 1) == Cuts{0, 4});
    check(cuts_of({10, 10, 10, 10}, 9, 1) == Cuts{0, 1, 2, 3, 4}, "no more parts than rows");
    check(cuts_of({10, 10, 10, 10}, 9, 20) == Cuts{0, 2, 4}, "20 bytes for each");
    check(cuts_of({10, 10, 10, 10}, 9, 21) == Cuts{0, 4}, "too few bytes for two");
    check(cuts_of({100, 1, 1, 1}, 2, 1) == Cuts{0, 1, 4});
    check(cuts_of({1, 1, 1, 100}, 2, 1) == Cuts{0, 4}, "no part without rows");
    check(cuts_of({0, 0, 0}, 4, 0) == Cuts{0, 3}, "nothing in them");
}

void every_part_runs_and_the_first_failure_is_reported() {
    std::atomic<int> done{0};
    const auto own = std::this_thread::get_id();
    bool first_is_here = false;
    on_threads(5, [&](std::size_t k) {
        ++done;
        if (k == 0) first_is_here = std::this_thread::get_id() == own;
    });
    check(done == 5 && first_is_here);
    on_threads(0, [&](std::size_t) { ++done; });
    check(done == 5);
    const FormatError error = fault_of([&] {
        on_threads(4, [&](std::size_t k) {
            ++done;
            if (k >= 2) throw FormatError(Fault::range, k);
        });
    });
    check(error.offset == 2 && done == 9, "all were waited for");
    try {
        on_threads(3, [](std::size_t k) {
            if (k == 1) throw std::bad_alloc();
        });
        check(false);
    } catch (const std::bad_alloc&) {}
}

// Features "values" (sparse), a label, and a uid. Rows differ in which of them they have.
const std::vector<std::vector<std::byte>> rows = {
    from_hex(
        "0a1d0a0676616c756573 1213 1211 0a080000e04000000041 12020103 1a0104 12120a0676616c756573120812060a040000803f"),
    from_hex("0a0f0a0676616c756573 12051203 1a0104 1a0141"),
    from_hex("12160a0676616c756573120c120a0a080000803f00000040 1a024242"),
    from_hex(""),
    from_hex("0a180a0676616c756573 120e 120c 0a0400000041 120102 1a0107"),
};

const std::vector<std::vector<Spec>> schemas = {
    {{Place::feature, "values", Kind::float32, Layout::sparse, -1, {}, false},
     {Place::uid, "", Kind::none, Layout::text, 1, {}, false}},
    {{Place::feature, "values", Kind::float32, Layout::sparse, 4, {}, false},
     {Place::label, "values", Kind::float32, Layout::varying, -1, {-1, 1}, false}},
    {{Place::feature, "other", Kind::int32, Layout::sparse, 9, {}, false},
     {Place::label, "values", Kind::float32, Layout::fixed, 1, {}, false}},
    {{Place::feature, "other", Kind::float64, Layout::sparse, 9, {}, false},
     {Place::feature, "texts", Kind::bytes, Layout::fixed, 2, {}, false}},
    {{Place::feature, "values", Kind::float32, Layout::sparse, 4, {}, true}},
};

bool same_bytes(const Pool::Block& a, const Pool::Block& b, std::size_t size) {
    return size == 0 || std::memcmp(a.data(), b.data(), size) == 0;
}

void check_same(const Spec& spec, const Column& a, const Column& b) {
    check(a.number_count == b.number_count && same_bytes(a.numbers, b.numbers, a.number_count * size_of(spec.kind)));
    check(a.wide == b.wide && a.width == b.width);
    if (spec.layout == Layout::sparse) check(same_bytes(a.keys, b.keys, a.number_count * (a.wide ? 8 : 4)));
    check(a.offsets == b.offsets && a.shapes == b.shapes && a.absent == b.absent && a.texts.size() == b.texts.size());
    for (std::size_t i = 0; i < a.texts.size(); ++i)
        check(a.texts[i].data() == b.texts[i].data() && a.texts[i].size() == b.texts[i].size());
}

void check_parts(const std::vector<Spec>& specs, const Spans& spans, unsigned threads) {
    const Decoder decoder(specs);
    std::vector<Column> expected;
    try {
        expected = decoder.decode(spans, pool);
    } catch (const FormatError& error) {
        const FormatError found = fault_of([&] { (void)decoder.decode(spans, pool, threads, 1); });
        check(found.fault == error.fault && found.offset == error.offset && found.record == error.record &&
              found.feature == error.feature);
        check(found.expected == error.expected && found.found == error.found);
        return;
    }
    const std::vector<Column> found = decoder.decode(spans, pool, threads, 1);
    for (std::size_t k = 0; k < specs.size(); ++k) check_same(specs[k], expected[k], found[k]);
}

void parts_match_one_thread() {
    std::uint32_t state = 1;
    for (int turn = 0; turn < 300; ++turn) {
        Spans spans;
        const std::size_t count = (state >> 8) % 40,
                          kinds = turn % 4 == 0 ? 5 : 4; // The fifth row is a fault under some schemas.
        for (std::size_t i = 0; i < count; ++i) {
            state = state * 1664525 + 1013904223;
            spans.payloads.push_back(bytes_of(rows[(state >> 16) % kinds]));
        }
        for (const std::vector<Spec>& specs : schemas)
            for (const unsigned threads : {2U, 3U, 16U, 1000U}) check_parts(specs, spans, threads);
    }
}

void later_parts_have_room() {
    Spans spans; // The first part does not suggest any numbers.
    spans.payloads.assign(200, bytes_of(rows[1]));
    spans.payloads.insert(spans.payloads.end(), 200, bytes_of(rows[0]));
    for (const unsigned threads : {2U, 5U}) check_parts(schemas[1], spans, threads);
    check(Decoder(schemas[1]).decode(spans, pool, 2, 1)[0].number_count == 400);
}

void a_sparse_column_is_read_in_parts() {
    Spans spans;
    spans.payloads.assign(50, bytes_of(rows[2]));
    check_parts({schemas[2][1]}, spans, 4);
}

} // namespace

int main() {
    rows_are_cut_where_half_of_the_bytes_are();
    every_part_runs_and_the_first_failure_is_reported();
    parts_match_one_thread();
    later_parts_have_room();
    a_sparse_column_is_read_in_parts();
}

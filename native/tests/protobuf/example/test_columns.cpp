#include "core/protobuf/example/columns.hpp"

#include "check.hpp"
#include "protobuf/example/samples.hpp"

using namespace headrace;
using namespace headrace::testing;
using example::Column;
using example::ColumnWriter;
using example::Kind;
using example::Progress;
using example::Spec;

namespace {

const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);

/// Payloads that hold nothing but have these sizes.
Spans payloads(std::initializer_list<std::size_t> sizes) {
    static const std::string zeros(100'000, '\0');
    Spans spans;
    for (const std::size_t size : sizes) spans.payloads.push_back(bytes_of(std::string_view(zeros)).first(size));
    return spans;
}

std::string text_at(const Column& column, std::size_t k) {
    const Bytes text = column.texts.view().at(k);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
}

void test_single_integers_of_every_size() {
    const Spec wanted = spec("i", Kind::int64, 1);
    const Progress progress(payloads({1000}));
    for (std::uint64_t value = 1; value != 0; value <<= 1)
        for (const std::uint64_t number : {value - 1, value, value + 1}) {
            ColumnWriter writer(wanted, progress, pool, this_cpu);
            const std::string bytes = std::string(8, '\x80') + varint(number);
            const Bytes run = bytes_of(std::string_view(bytes)).subspan(8);
            check(writer.put_integer(run, 0) == (run.size() <= 8));
            check(run.size() <= 8 || writer.put_run(run, 0));
            check(load_le<std::uint64_t>(writer.finish().numbers.data()) == number);
            for (const std::int64_t count : {-1, 1, 2}) {
                const Spec steps = spec("i", Kind::int64, count, true);
                ColumnWriter other(steps, progress, pool, this_cpu);
                check(other.add_integer(run) == (count != 2 && run.size() <= 8));
                if (count == 2 || run.size() > 8) continue;
                const Column column = other.finish();
                check(column.number_count == 1 && load_le<std::uint64_t>(column.numbers.data()) == number);
            }
        }
    for (const char* const hex : {"", "80", "8080", "0101", "010101", "80018001", "8080808080808080", "0180"}) {
        ColumnWriter writer(wanted, progress, pool, this_cpu);
        auto bytes = from_hex("0101010101010101");
        const auto more = from_hex(hex);
        bytes.insert(bytes.end(), more.begin(), more.end());
        check(!writer.put_integer(bytes_of(bytes).subspan(8), 0) && !writer.put_run(bytes_of(bytes).subspan(8), 0));
        const Spec steps = spec("i", Kind::int64, -1, true);
        ColumnWriter other(steps, progress, pool, this_cpu);
        check(!other.add_integer(bytes_of(bytes).subspan(8)));
    }
}

void test_runs_of_a_fixed_count() {
    const std::string run(12, '\x01');
    const Bytes bytes = bytes_of(std::string_view(run));
    const Progress progress(payloads({100, 100}));
    const Spec floats = spec("f", Kind::float32, 3), integers = spec("i", Kind::int64, 12);
    ColumnWriter writer(floats, progress, pool, this_cpu), other(integers, progress, pool, this_cpu);
    check(writer.put_floats(bytes, 1) && !writer.put_floats(bytes.first(8), 1) && !writer.put_floats({}, 1));
    check(writer.put_run(bytes, 0) && !writer.put_run(bytes.first(11), 0));
    check(other.put_run(bytes, 1) && !other.put_run(bytes.first(11), 1));
    check(writer.finish().number_count == 6 && other.finish().number_count == 24);
}

void test_dropped_rows() {
    Progress progress(payloads({500, 500, 500}));
    const Spec words = spec("w", Kind::bytes, -1), pairs = spec("p", Kind::bytes, 2), runs = spec("r", Kind::int64, -1);
    const Spec steps = spec("s", Kind::bytes, -1, true);
    ColumnWriter word(words, progress, pool, this_cpu), pair(pairs, progress, pool, this_cpu);
    ColumnWriter run(runs, progress, pool, this_cpu), step(steps, progress, pool, this_cpu);
    const std::string two = field(1, "one") + field(1, "two"), three = two + field(1, "three");
    const auto put = [&](std::size_t i, const std::string& list) {
        const Bytes bytes = bytes_of(std::string_view(list));
        const std::byte* const end = bytes.data() + bytes.size();
        check(word.put_texts(bytes, end) && pair.put_texts(bytes, end) == (list == two) &&
              run.put_run(bytes.first(4), i));
        check(step.add_text(bytes.first(3), end) && step.add_text(bytes.first(1), end));
        step.end_list(2);
    };
    progress.begin(payloads({500}).payloads[0]);
    put(0, two), put(1, two), put(2, three);
    for (ColumnWriter* const writer : {&word, &pair, &run, &step}) writer->drop(2), writer->drop(1);
    put(1, two);
    for (ColumnWriter* const writer : {&word, &run, &step}) writer->put_absent(2);
    check(fault_of([&] { pair.put_absent(2); }).fault == Fault::missing);
    const Column w = word.finish(), p = pair.finish(), r = run.finish(), s = step.finish();
    check(w.offsets == std::vector<std::int64_t>{0, 2, 4, 4} && w.texts.count == 4 && text_at(w, 3) == "two");
    check(p.texts.count == 4 && text_at(p, 2) == "one" && p.offsets.empty());
    check(r.offsets == std::vector<std::int64_t>{0, 4, 8, 8} && r.number_count == 8);
    check(s.steps == std::vector<std::int64_t>{0, 2, 4, 4} && s.offsets == std::vector<std::int64_t>{0, 1, 2, 3, 4});
}

void room_is_bounded_by_the_payloads() {
    const Spec words = spec("w", Kind::bytes, -1);
    Progress progress(payloads({1000, 90'000, 1000}));
    check(progress.total_bytes == 92'000 && progress.records == 3);
    progress.begin(payloads({1000}).payloads[0]);
    check(progress.bytes == 1000 && progress.left == 92'000);
    check(progress.expected(500) >= 46'000 && progress.expected(500) < 60'000);
    ColumnWriter writer(words, progress, pool, this_cpu);
    const std::string large(90'000, 'x'), small(900, 'y');
    const auto put = [&](const std::string& text) {
        const Bytes bytes = bytes_of(std::string_view(text));
        writer.put_text(bytes, bytes.data() + bytes.size());
    };
    put(small);
    progress.begin(payloads({90'000}).payloads[0]);
    put(large);
    progress.begin(payloads({1000}).payloads[0]);
    check(progress.left == 1000);
    put(small);
    const Column column = writer.finish();
    check(column.texts.count == 3 && column.texts.size == 91'800 && column.texts.data.capacity() < 150'000);
    check(text_at(column, 1) == large && text_at(column, 2) == small);
}

} // namespace

int main() {
    test_single_integers_of_every_size();
    test_runs_of_a_fixed_count();
    test_dropped_rows();
    room_is_bounded_by_the_payloads();
}

#include "core/protobuf/example/values.hpp"

#include "base/cpus.hpp"
#include "check.hpp"
#include "protobuf/example/samples.hpp"

using namespace headrace;
using namespace headrace::testing;
using example::Kind;
using example::List;
using example::Part;

namespace {

List list(Kind kind, std::string_view content, std::string_view more = {}) {
    List out;
    out.kind = kind;
    out.piece = {bytes_of(content), bytes_of(content).data()};
    if (!more.empty()) out.more.push_back({bytes_of(more), bytes_of(more).data()});
    return out;
}

void test_the_usual_form() {
    Part run;
    const std::string short_run = field(1, "abc"), long_run = field(1, std::string(300, 'x'));
    check(example::sole_packed_run(list(Kind::int64, short_run), run) && run.bytes.size() == 3);
    check(example::sole_packed_run(list(Kind::int64, long_run), run) && run.bytes.size() == 300);
    const std::string padded = "\x0a\x83" + std::string(1, '\0') + "abc"; // a length of two bytes where one would do
    check(example::sole_packed_run(list(Kind::int64, padded), run) && run.bytes.size() == 3);
    check(!example::sole_packed_run(list(Kind::int64, ""), run));
    check(!example::sole_packed_run(list(Kind::int64, short_run + short_run), run));
    check(!example::sole_packed_run(list(Kind::int64, short_run, short_run), run));
    check(!example::sole_packed_run(list(Kind::int64, "\x08\x01"), run));
}

void every_cpu_reads_every_form() {
    const std::string numbers = varint(1) + varint(300) + varint(UINT64_MAX);
    const std::string single = "\x08" + varint(7), other = "\x10\x01"; // unpacked, and a field that is not known
    const std::string content = field(1, numbers) + single + other, more = field(1, varint(9));
    const std::int64_t expected[] = {1, 300, -1, 7, 9};
    for (const Cpu& cpu : runnable_cpus()) {
        const List values = list(Kind::int64, content, more);
        check(example::count_values(values, cpu) == 5);
        std::int64_t out[5] = {};
        auto* const to = reinterpret_cast<std::byte*>(out);
        check(example::read_numbers(values, Kind::int64, 5, to, cpu) == 5 && std::ranges::equal(out, expected));
        check(example::read_numbers(values, Kind::int64, 4, to, cpu) == 5);
        double doubles[5] = {};
        check(example::read_numbers(values, Kind::number, 5, reinterpret_cast<std::byte*>(doubles), cpu) == 5 &&
              std::ranges::equal(doubles, expected));
        const std::string cut = field(1, "\x80");
        check(fault_of([&] { (void)example::count_values(list(Kind::int64, cut), cpu); }).fault == Fault::wire);
    }
}

void test_texts_in_pieces() {
    const std::string first = field(1, "one") + field(2, "not this") + field(1, ""), second = field(1, "three");
    std::vector<std::string> found;
    const List values = list(Kind::bytes, first, second);
    example::each_text(
        values, [&](Bytes text) { found.emplace_back(reinterpret_cast<const char*>(text.data()), text.size()); });
    check(found == std::vector<std::string>{"one", "", "three"} && example::count_values(values) == 3);
    check(example::count_values(List{}) == 0);
}

} // namespace

int main() {
    test_the_usual_form();
    every_cpu_reads_every_form();
    test_texts_in_pieces();
}

#include "core/protobuf/example/steps.hpp"

#include "check.hpp"
#include "protobuf/example/samples.hpp"

using namespace headrace;
using namespace headrace::testing;
using example::Kind;
using example::StepReader;
using example::StepTemplate;

namespace {

const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);

std::vector<float> read_by(const StepTemplate& usual, Bytes steps, std::size_t& count) {
    std::vector<float> out(usual.most(steps) * usual.values() / sizeof(float));
    count = usual.copy(steps, reinterpret_cast<std::byte*>(out.data()));
    out.resize(count * usual.values() / sizeof(float));
    return out;
}

void equal_steps_are_copied() {
    for (const std::size_t floats_each : {1U, 2U, 4U, 16U, 30U, 31U, 65U, 200U}) { // heads of one and two byte lengths
        std::vector<float> expected;
        std::string steps;
        for (std::size_t step = 0; step < 5; ++step) {
            std::vector<float> values(floats_each);
            for (float& value : values) expected.push_back(value = static_cast<float>(expected.size()));
            steps += field(1, floats(values));
        }
        const Bytes all = bytes_of(std::string_view(steps));
        const std::size_t size = all.size() / 5, numbers = floats_each * sizeof(float);
        StepTemplate usual;
        check(!usual.begins(all) && usual.most(all) == 0 && usual.copy(all, nullptr) == 0);
        usual.learn(all.data(), all.subspan(size - numbers, numbers));
        check(usual.size() == size && usual.values() == numbers && usual.begins(all) && usual.most(all) == 5);
        std::size_t count = 0;
        check(read_by(usual, all, count) == expected && count == 5);
        check(read_by(usual, all.first(all.size() - 1), count).size() == 4 * floats_each && count == 4);
        for (std::size_t at = 0; at < size - numbers; ++at) { // Another head ends the run.
            std::string changed = steps;
            changed[2 * size + at] ^= 4;
            check(read_by(usual, bytes_of(std::string_view(changed)), count).size() == 2 * floats_each);
        }
    }
}

void some_steps_are_not_learned() {
    const std::string step = field(1, floats({1}));
    const Bytes all = bytes_of(std::string_view(step));
    StepTemplate usual;
    usual.learn(all.data(), all.last(4));
    check(usual.begins(all));
    usual.learn(all.data(), all.last(0)); // without numbers
    check(!usual.begins(all));
    const std::string far(17, 'x');
    const Bytes long_head = bytes_of(std::string_view(far));
    usual.learn(long_head.data(), long_head.last(0));
    check(!usual.begins(long_head));
}

void test_numbers_of_equal_and_other_forms() {
    // Four steps of one float: two in the usual form, one unpacked, one more in the usual form.
    const std::string usual = "0a08 1206 0a04 0000803f", single = "0a07 1205 0d 00000040";
    const auto payload = from_hex("122e 0a2c 0a0173 1227" + usual + usual + single + usual);
    Spans spans;
    spans.payloads = {bytes_of(payload), bytes_of(payload)};
    for (const std::int64_t count : {-1, 1}) {
        const example::Decoder decoder({spec("s", Kind::float32, count, true)});
        const auto columns = decoder.decode(spans, pool);
        check(columns[0].steps == std::vector<std::int64_t>{0, 4, 8} && columns[0].number_count == 8);
        const float expected[] = {1, 1, 2, 1, 1, 1, 2, 1};
        check(std::memcmp(columns[0].numbers.data(), expected, sizeof expected) == 0);
        if (count < 0) check(columns[0].offsets == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
    }
    const example::Decoder two({spec("s", Kind::float32, 2, true)});
    const FormatError error = fault_of([&] { (void)two.decode(spans, pool); });
    check(error.fault == Fault::wrong_count && error.expected == 2 && error.found == 1 && error.record == 0);
}

/// The texts of feature lists, joined by commas, and how many steps they have.
std::string texts_of(const std::string& list, std::int64_t count, std::size_t& steps) {
    const example::Spec wanted = spec("s", Kind::bytes, count, true);
    Spans spans;
    spans.payloads = {bytes_of(std::string_view(list))};
    example::Progress progress(spans);
    progress.begin(spans.payloads[0]);
    example::ColumnWriter writer(wanted, progress, pool, this_cpu);
    StepReader reader;
    steps = reader.read({spans.payloads[0], spans.payloads[0].data()}, writer);
    writer.end_list(steps);
    const example::Column column = writer.finish();
    check(column.steps == std::vector<std::int64_t>{0, static_cast<std::int64_t>(steps)});
    check(count >= 0 || column.offsets.size() == steps + 1);
    std::string out;
    for (std::size_t k = 0; k < column.texts.count; ++k) {
        const Bytes text = column.texts.view().at(k);
        out.append(reinterpret_cast<const char*>(text.data()), text.size()).push_back(',');
    }
    return out;
}

void test_texts_of_every_length() {
    std::string list, expected;
    for (const std::size_t size : {0U, 1U, 3U, 16U, 17U, 64U, 100U, 119U, 120U, 121U, 122U, 123U, 200U, 5U}) {
        const std::string text(size, static_cast<char>('a' + size % 26));
        list += field(1, texts({text}));
        expected += text + ",";
    }
    std::size_t steps = 0;
    for (const std::int64_t count : {-1, 1}) check(texts_of(list, count, steps) == expected && steps == 14);
    list += field(1, texts({"two", "of them"})) + field(2, "another field") + field(1, "");
    check(texts_of(list, -1, steps) == expected + "two,of them," && steps == 16);
    check(fault_of([&] { (void)texts_of(list, 1, steps); }).fault == Fault::wrong_count);
    check(fault_of([&] { (void)texts_of(field(1, floats({1})), -1, steps); }).fault == Fault::wrong_kind);
}

} // namespace

int main() {
    equal_steps_are_copied();
    some_steps_are_not_learned();
    test_numbers_of_equal_and_other_forms();
    test_texts_of_every_length();
}

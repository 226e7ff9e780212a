#include "core/protobuf/example/decode.hpp"

#include <random>

#include "base/cpus.hpp"
#include "check.hpp"
#include "protobuf/example/samples.hpp"

using namespace headrace;
using namespace headrace::testing;
using example::Kind;

namespace {

const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);

// The key and values of `packed` in pieces: unpacked 1, packed -1, and 300 in a second list.
constexpr std::string_view pieces = "0a1c0a1a0a016912151a0e08010a0affffffffffffffffff011a0308ac02";

std::vector<std::int64_t> numbers_of(std::string_view hex, std::int64_t count) {
    const auto payload = from_hex(hex);
    Spans spans;
    spans.payloads = {bytes_of(payload)};
    const example::Decoder decoder({spec("i", Kind::int64, count)});
    const auto columns = decoder.decode(spans, pool);
    const auto* const numbers = reinterpret_cast<const std::int64_t*>(columns[0].numbers.data());
    return {numbers, numbers + columns[0].number_count};
}

void test_every_form_of_a_list() {
    const std::vector<std::int64_t> expected = {1, -1, 300};
    check(numbers_of(packed, 3) == expected && numbers_of(packed, -1) == expected);
    check(numbers_of(pieces, 3) == expected && numbers_of(pieces, -1) == expected);
}

void faults_name_record_and_feature() {
    const auto payload = from_hex(packed);
    Spans spans;
    spans.payloads = {bytes_of(payload), bytes_of(payload)};
    const auto fault = [&](const example::Spec& wanted) {
        const example::Decoder decoder({spec("none", Kind::bytes, -1), wanted});
        return fault_of([&] { (void)decoder.decode(spans, pool); });
    };
    const FormatError count = fault(spec("i", Kind::int64, 2));
    check(count.fault == Fault::wrong_count && count.expected == 2 && count.found == 3 && count.record == 0 &&
          count.feature == 1);
    check(fault(spec("i", Kind::float32, 3)).fault == Fault::wrong_kind);
    check(fault(spec("j", Kind::int64, 1)).fault == Fault::missing);
    spans.payloads[1] = bytes_of("\x0a\x7f");
    check(fault(spec("i", Kind::int64, 3)).record == 1);
}

void faults_count_from_the_payload() {
    // The varint in the packed run, at byte 13 of the payload, does not end.
    const auto payload = from_hex("0a0c0a0a0a01691205"
                                  "1a030a0181");
    Spans spans;
    spans.payloads = {bytes_of(payload)};
    for (const std::int64_t count : {-1, 1}) {
        const example::Decoder decoder({spec("i", Kind::int64, count)});
        const FormatError error = fault_of([&] { (void)decoder.decode(spans, pool); });
        check((error.fault == Fault::wire || error.fault == Fault::truncated) && error.offset == 13 &&
              error.feature == 0);
    }
    const auto deep = from_hex("0a0d0a0b0a01691206"
                               "1a040a05"
                               "0101");
    spans.payloads = {bytes_of(deep)};
    const example::Decoder decoder({spec("i", Kind::int64, -1)});
    const FormatError error = fault_of([&] { (void)decoder.decode(spans, pool); });
    check(error.fault == Fault::truncated && error.offset == 13 && error.expected == 5 && error.found == 2);
}

void impossible_counts_allocate_nothing() {
    const auto payload = from_hex(packed);
    Spans spans;
    for (int i = 0; i < 4; ++i) spans.payloads.push_back(bytes_of(payload));
    for (const Kind kind : {Kind::int64, Kind::number, Kind::bytes, Kind::float32})
        for (const std::int64_t count : {std::int64_t{27}, std::int64_t{1} << 32, std::int64_t{1} << 61, INT64_MAX}) {
            const example::Decoder decoder({spec("i", kind, count)});
            const FormatError error = fault_of([&] { (void)decoder.decode(spans, pool); });
            check(error.record == 0 && (error.fault == Fault::wrong_count || error.fault == Fault::wrong_kind));
        }
}

void both_number_types_decode_as_double() {
    const auto whole = from_hex(packed);
    const auto real = from_hex("0a110a0f0a0169120a"
                               "12080a06"
                               "0000c03f"
                               "0000"); // truncated float: refused
    Spans spans;
    spans.payloads = {bytes_of(whole)};
    const example::Decoder decoder({spec("i", Kind::number, -1)});
    const auto columns = decoder.decode(spans, pool);
    check(columns[0].number_count == 3 && load_le<double>(columns[0].numbers.data() + 16) == 300.0);
    spans.payloads = {bytes_of(real)};
    check(fault_of([&] { (void)decoder.decode(spans, pool); }).fault == Fault::wire);
    const auto large = from_hex("0a140a120a0169120d"
                                "1a0b0a09"
                                "808080808080808040");
    spans.payloads = {bytes_of(large)};
    const FormatError error = fault_of([&] { (void)decoder.decode(spans, pool); });
    check(error.fault == Fault::range && error.found == std::uint64_t{1} << 62);
}

void values_of_features_are_not_lost_where_lists_are_wanted() {
    const std::string flat = entry("i", integers({1, 2}));
    const std::string steps = entry("i", field(1, integers({3})));
    const std::string other = entry("j", integers({4}));
    const std::string empty = entry("i", integers({}));
    const std::string with_list = field(1, other) + field(2, steps);
    const std::string with_both = field(1, flat + other) + field(2, steps);
    const std::string with_feature = field(1, flat + other);
    const std::string with_empty = field(1, empty + other);
    example::Spec wanted = spec("i", Kind::int64, -1, true);
    const auto decode = [&](const std::vector<std::string>& payloads, bool sole) {
        wanted.sole = sole;
        const example::Decoder decoder({spec("j", Kind::int64, 1), wanted});
        Spans spans;
        for (const std::string& payload : payloads) spans.payloads.push_back(bytes_of(payload));
        return decoder.decode(spans, pool)[1].number_count;
    };
    check(decode({with_list, with_both, with_empty, with_list, with_both}, true) == 4);
    check(decode({with_list, with_both, with_feature}, false) == 2);
    const std::vector<std::vector<std::string>> before = {
        {}, {with_list}, {with_both}, {with_empty}, {with_list, with_both, with_list, with_both, with_empty}};
    for (std::vector<std::string> payloads : before) {
        payloads.push_back(with_feature);
        const FormatError error = fault_of([&] { (void)decode(payloads, true); });
        check(error.fault == Fault::flat && error.found == 3 && error.feature == 1 &&
              std::cmp_equal(error.record, payloads.size() - 1));
    }
}

void steps_are_not_lost_where_features_are_wanted() {
    const std::string flat = field(1, entry("i", integers({1, 2})));
    const std::string empty = field(1, entry("i", integers({})));
    const std::string steps = field(2, entry("i", field(1, integers({3}))));
    const std::string no_steps = field(2, entry("i", field(3, "of another field")));
    const std::string other = field(2, entry("k", field(1, integers({3}))));
    example::Spec wanted = spec("i", Kind::int64, -1);
    const auto decode = [&](const std::vector<std::string>& payloads, bool sole) {
        wanted.sole = sole;
        const example::Decoder decoder({wanted});
        Spans spans;
        for (const std::string& payload : payloads) spans.payloads.push_back(bytes_of(payload));
        return decoder.decode(spans, pool)[0].number_count;
    };
    const std::vector<std::string> harmless = {flat, empty, flat + other, other, flat + steps, empty + steps, no_steps};
    check(decode(harmless, true) == 6);
    check(decode({flat, steps}, false) == 2);
    for (std::size_t before = 0; before <= harmless.size(); ++before) {
        std::vector<std::string> payloads(harmless.begin(), harmless.begin() + static_cast<std::ptrdiff_t>(before));
        payloads.push_back(steps);
        const FormatError error = fault_of([&] { (void)decode(payloads, true); });
        check(error.fault == Fault::steps && error.feature == 0 && std::cmp_equal(error.record, before));
    }
}

/// {"t": a packed run of `count` numbers that take one to three bytes}, and the numbers.
std::vector<std::byte> tokens(std::size_t count, std::vector<std::int64_t>& numbers) {
    std::vector<std::byte> run(count * 10), out;
    std::byte* end = run.data();
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t number = i * 7919 % (i % 3 == 0 ? 50'000 : 120);
        numbers.push_back(static_cast<std::int64_t>(number));
        end = proto::write_varint(end, number);
    }
    run.resize(static_cast<std::size_t>(end - run.data()));
    const auto wrap = [](std::uint32_t field, const std::vector<std::byte>& inner) {
        std::vector<std::byte> whole(11);
        whole.resize(static_cast<std::size_t>(proto::write_head(whole.data(), field, inner.size()) - whole.data()));
        whole.insert(whole.end(), inner.begin(), inner.end());
        return whole;
    };
    std::vector<std::byte> entry = from_hex("0a0174");
    const auto value = wrap(2, wrap(3, wrap(1, run)));
    entry.insert(entry.end(), value.begin(), value.end());
    return wrap(1, wrap(1, entry));
}

void columns_grow_the_same_on_every_cpu() {
    for (const Cpu& cpu : runnable_cpus()) {
        std::vector<std::vector<std::byte>> payloads;
        std::vector<std::int64_t> expected, offsets = {0};
        for (const std::size_t count : {1U, 0U, 3U, 500U, 20U, 9000U, 2U, 64U}) {
            payloads.push_back(tokens(count, expected));
            offsets.push_back(static_cast<std::int64_t>(expected.size()));
        }
        Spans spans;
        for (const auto& payload : payloads) spans.payloads.push_back(bytes_of(payload));
        const example::Decoder decoder({spec("t", Kind::int64, -1)}, cpu);
        const auto columns = decoder.decode(spans, pool);
        check(columns[0].offsets == offsets && columns[0].number_count == expected.size());
        check(std::memcmp(columns[0].numbers.data(), expected.data(), expected.size() * 8) == 0);
    }
}

void test_keys_in_another_order() {
    // {"a": 1, "b": 2}, then {"b": 3, "a": 4}, then {"a": 5} and {"b": 6} alone, and an entry with its value first.
    const auto first = from_hex("0a1a 0a0b0a0161 1206 1a040a0201 00 0a0b0a0162 1206 1a040a0202 00");
    const auto turned = from_hex("0a1a 0a0b0a0162 1206 1a040a0203 00 0a0b0a0161 1206 1a040a0204 00");
    const auto value_first = from_hex("0a1a 0a0b 1206 1a040a0205 00 0a0161 0a0b0a0162 1206 1a040a0206 00");
    Spans spans;
    spans.payloads = {bytes_of(first), bytes_of(turned), bytes_of(first), bytes_of(value_first), bytes_of(turned)};
    const example::Decoder decoder({spec("a", Kind::int64, 2), spec("b", Kind::int64, -1)});
    const auto columns = decoder.decode(spans, pool);
    for (std::size_t i = 0; i < 5; ++i) {
        const std::int64_t a[] = {1, 4, 1, 5, 4}, b[] = {2, 3, 2, 6, 3};
        check(load_le<std::int64_t>(columns[0].numbers.data() + i * 16) == a[i]);
        check(load_le<std::int64_t>(columns[1].numbers.data() + i * 16) == b[i]);
    }
}

void defaults_fill_in() {
    Spans spans;
    spans.payloads = {Bytes()};
    example::Spec wanted = spec("i", Kind::int64, 1);
    wanted.has_default = true;
    wanted.numbers = from_hex("0700000000000000");
    const example::Decoder decoder({wanted});
    const auto columns = decoder.decode(spans, pool);
    check(load_le<std::int64_t>(columns[0].numbers.data()) == 7);
}

/// Records of one writer, and valid rewritten forms of them.
class Records {
  public:
    explicit Records(unsigned seed) : random_(seed) {}

    std::string next() {
        std::string features, lists;
        for (const char* const key : {"a", "id", "price", "word", "words", "tags", "other key", "either", "none"}) {
            const unsigned chance = pick(40);
            if (chance == 0) continue;
            features += entry(key, value(key));
            if (chance == 1) features += entry(key, value(key));
            if (chance == 2) features += entry("unknown" + std::to_string(pick(3)), value("word"));
        }
        if (pick(30) == 0) features += features; // in another order, each twice
        for (const char* const key : {"step", "text", "token"})
            if (pick(20) != 0) lists += entry(key, steps(key));
        std::string out = field(1, features) + field(2, lists);
        if (pick(30) == 0) out = field(2, lists) + field(1, features);
        if (pick(40) == 0) out += field(1, entry("id", value("id")));
        if (pick(100) == 0) out[pick(out.size())] ^= static_cast<char>(1 << pick(8));
        return out;
    }

  private:
    std::size_t pick(std::size_t below) { return random_() % below; }

    std::string value(std::string_view key) {
        if (pick(50) == 0) return "";                                                   // no list
        if (pick(2500) == 0) return field(static_cast<std::uint32_t>(1 + pick(3)), ""); // an empty one
        if (pick(2500) == 0) return texts({"another kind"});
        if (key == "price") return pick(40) == 0 ? field(2, std::string("\x0d") + "abcd") : floats({number()});
        if (key == "other key") return floats({number(), number(), number()});
        if (key == "word") return texts({word()});
        if (key == "words") return texts(std::vector<std::string>(pick(4), word()));
        if (key == "tags") return texts({word(), word()});
        if (key == "either" && pick(2) == 0) return floats({number()});
        if (key == "a" && pick(20) == 0) return integers({1, 2}) + integers({3});
        if (key == "a") return integers(std::vector<std::int64_t>(pick(30), integer()));
        return pick(30) == 0 ? field(3, "\x08" + varint(7)) : integers({integer()});
    }

    std::string steps(std::string_view key) {
        std::string out;
        for (std::size_t i = pick(6); i != 0; --i)
            out += field(1, key == "step"   ? pick(1500) == 0 ? "" : floats({number(), number()})
                            : key == "text" ? texts(std::vector<std::string>(pick(1500) == 0 ? 2 : 1, word()))
                                            : value("id"));
        return out;
    }

    float number() { return static_cast<float>(pick(1000)); }
    std::int64_t integer() { return static_cast<std::int64_t>(random_() >> pick(64)); }
    std::string word() { return std::string(pick(10) == 0 ? pick(300) : pick(40), static_cast<char>('a' + pick(26))); }

    std::mt19937_64 random_;
};

void every_cpu_decodes_the_same() {
    std::vector<example::Spec> specs = {
        spec("a", Kind::int64, -1),          spec("id", Kind::int64, 1),          spec("price", Kind::float32, 1),
        spec("word", Kind::bytes, 1),        spec("words", Kind::bytes, -1),      spec("tags", Kind::bytes, 2),
        spec("other key", Kind::float32, 3), spec("either", Kind::number, 1),     spec("step", Kind::float32, 2, true),
        spec("text", Kind::bytes, 1, true),  spec("token", Kind::int64, -1, true)};
    for (example::Spec& one : specs) {
        one.has_default = one.count >= 0 && !one.list;
        if (!one.has_default) continue;
        one.texts.assign(one.kind == Kind::bytes ? static_cast<std::size_t>(one.count) : 0, "default");
        if (one.kind != Kind::bytes)
            one.numbers.assign(static_cast<std::size_t>(one.count) * example::size_of_number(one.kind), std::byte{1});
    }
    std::size_t faults = 0, rounds = 0;
    for (const Cpu& cpu : runnable_cpus()) {
        const example::Decoder decoder(specs, cpu);
        for (unsigned seed = 0; seed < 100; ++seed, ++rounds) {
            Records records(seed);
            std::shared_ptr<const example::RecordTemplate> usual;
            for (int batch = 0; batch < 3; ++batch) {
                std::vector<std::vector<std::byte>> kept; // of its size each, for the sanitizers
                Spans spans;
                for (int i = 0; i < 12; ++i) {
                    const std::string payload = records.next();
                    const auto bytes = std::as_bytes(std::span(payload));
                    kept.emplace_back(bytes.begin(), bytes.end());
                }
                for (const auto& payload : kept) spans.payloads.push_back(bytes_of(payload));
                check(is_same_as_alone(decoder, spans, pool, usual));
                faults += answer(decoder, spans, pool, usual).fault ? 1U : 0U;
            }
        }
    }
    check(faults > rounds / 10 && faults < 2 * rounds, std::to_string(faults) + " faults in " + std::to_string(rounds));
}

void a_changed_record_does_not_spoil_the_template() {
    const std::string good = field(1, entry("a", integers({1})) + entry("b", integers({2})));
    const std::string other = field(1, entry("b", integers({3})) + entry("a", integers({4})));
    std::shared_ptr<const example::RecordTemplate> usual;
    const example::Decoder decoder({spec("a", Kind::int64, 1), spec("b", Kind::int64, 1)});
    for (const auto& payloads : {std::vector{good, good}, {other, good, other}, {good}, {other}}) {
        Spans spans;
        for (const std::string& payload : payloads) spans.payloads.push_back(bytes_of(std::string_view(payload)));
        check(is_same_as_alone(decoder, spans, pool, usual) && usual != nullptr);
    }
}

} // namespace

int main() {
    values_of_features_are_not_lost_where_lists_are_wanted();
    steps_are_not_lost_where_features_are_wanted();
    every_cpu_decodes_the_same();
    a_changed_record_does_not_spoil_the_template();
    test_every_form_of_a_list();
    faults_name_record_and_feature();
    faults_count_from_the_payload();
    impossible_counts_allocate_nothing();
    both_number_types_decode_as_double();
    columns_grow_the_same_on_every_cpu();
    test_keys_in_another_order();
    defaults_fill_in();
}

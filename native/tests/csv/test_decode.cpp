#include "core/csv/decode.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "base/cpus.hpp"
#include "check.hpp"
#include "csv/rows.hpp"

using namespace headrace;
using headrace::testing::bytes_of;
using headrace::testing::check;
using headrace::testing::fault_of;

namespace {

const csv::Dialect plain;

csv::Layout layout(std::size_t width) { return {plain, width, csv::Words({"", "NA"})}; }

std::vector<std::string> texts_of(const csv::Column& column) {
    std::vector<std::string> out;
    const StringsView view = column.texts.view();
    for (std::size_t i = 0; i < view.count(); ++i) {
        const Bytes value = view.at(i);
        out.emplace_back(reinterpret_cast<const char*>(value.data()), value.size());
    }
    return out;
}

void test_decoding() {
    const auto pool = std::make_shared<Pool>(1 << 20);
    Spans spans;
    spans.payloads = {bytes_of("1, 2.5 ,\"x\"\"y\""), bytes_of("-7,NA,"), bytes_of("3.0,\"1e3\",z")};
    const csv::Decoder decoder(layout(3), {{2, csv::Kind::text, false, 0, ""},
                                           {0, csv::Kind::int64, false, 0, ""},
                                           {1, csv::Kind::float64, false, 0, ""}});
    const csv::Decoded decoded = decoder.decode(spans, pool);
    check(texts_of(decoded.columns[0]) == std::vector<std::string>{"x\"y", "", "z"});
    check(load_le<std::int64_t>(decoded.columns[1].numbers.data() + 8) == -7);
    check(load_le<std::int64_t>(decoded.columns[1].numbers.data() + 16) == 3);
    const auto second = load_le<double>(decoded.columns[2].numbers.data() + 8);
    check(load_le<double>(decoded.columns[2].numbers.data()) == 2.5 && second != second);
    check(load_le<double>(decoded.columns[2].numbers.data() + 16) == 1000);

    spans.payloads = {bytes_of("1,2,3"), bytes_of("x,2,3")};
    FormatError error = fault_of([&] { (void)decoder.decode(spans, pool); });
    check(error.fault == Fault::wrong_kind && error.record == 1 && error.feature == 1 && error.offset == 0);
    spans.payloads = {bytes_of("x,2")};
    check(fault_of([&] { (void)decoder.decode(spans, pool); }).fault == Fault::wrong_count, "the width comes first");
    check(fault_of([] { csv::Decoder(layout(1), {{1, csv::Kind::text, false, 0, ""}}); }).fault == Fault::range);
}

/// Every field as text, against the slow way to split a row.
void test_texts_against_the_plain_way() {
    std::mt19937 random(4);
    const auto pool = std::make_shared<Pool>(1 << 20);
    std::vector<char> room;
    for (int round = 0; round < 1000; ++round) {
        const std::string text = headrace::testing::random_rows(random, 12);
        const csv::Scan found = csv::scan(bytes_of(text), 0, text.size(), plain, {}, true, 100);
        const Bytes files[] = {bytes_of(text)};
        for (const Bytes row : csv::gather(files, {}, found.starts, plain)) {
            const std::vector<Bytes> fields = csv::fields_of(row, plain);
            std::vector<csv::Spec> specs;
            for (std::size_t k = 0; k < fields.size(); ++k) {
                specs.push_back({k, csv::Kind::text, false, 0, ""});
                specs.back().is_bytes = random() % 2 == 0;
            }
            Spans spans;
            spans.payloads = {row, row};
            const csv::Decoded decoded = csv::Decoder(layout(fields.size()), specs).decode(spans, pool);
            for (std::size_t k = 0; k < fields.size(); ++k) {
                const std::string value(csv::value_of(fields[k], plain, room));
                check(texts_of(decoded.columns[k]) == std::vector<std::string>{value, value}, value);
                check(!decoded.columns[k].no_text);
            }
        }
    }
}

void test_encodings() {
    const auto pool = std::make_shared<Pool>(1 << 20);
    auto charset = std::make_shared<csv::Charset>();
    (*charset)[0x69] = "\xc3\xa9"; // e9, as in latin-1
    Spans spans;
    spans.payloads = {bytes_of("abc"), bytes_of("caf\xe9"), bytes_of("\"\"\"\xe9\"")};
    csv::Spec spec{0, csv::Kind::text, true, 0, "missing \xe9"};
    spec.charset = charset;
    csv::Decoded decoded = csv::Decoder(layout(1), {spec}).decode(spans, pool);
    check(texts_of(decoded.columns[0]) == std::vector<std::string>{"abc", "caf\xc3\xa9", "\"\xc3\xa9"});
    check(!decoded.columns[0].no_text);
    spans.payloads = {bytes_of("NA"), bytes_of("\xea"), bytes_of("\xeb")};
    decoded = csv::Decoder(layout(1), {spec}).decode(spans, pool);
    check(decoded.columns[0].no_text == 1 && texts_of(decoded.columns[0])[0] == "missing \xc3\xa9");
    spec.charset.reset();
    spans.payloads = {bytes_of("ok"), bytes_of("\xc3"), bytes_of("\xa9")}; // valid only together
    check(csv::Decoder(layout(1), {spec}).decode(spans, pool).columns[0].no_text == 1);
    spec.is_bytes = true;
    check(!csv::Decoder(layout(1), {spec}).decode(spans, pool).columns[0].no_text);
}

bool same(const csv::Decoded& one, const csv::Decoded& other, const std::vector<csv::Spec>& specs, std::size_t rows) {
    for (std::size_t k = 0; k < specs.size(); ++k) {
        const csv::Column &a = one.columns[k], &b = other.columns[k];
        if (a.no_text != b.no_text) return false;
        if (specs[k].kind == csv::Kind::text
                ? texts_of(a) != texts_of(b)
                : std::memcmp(a.numbers.data(), b.numbers.data(), rows * csv::size_of(specs[k].kind)) != 0)
            return false;
    }
    return true;
}

/// Values of each kind, plain and not. `odd`: how often one of another kind is among them; `around`: how often a number
/// has something around it.
std::string random_value(std::mt19937& random, csv::Kind kind, unsigned odd, unsigned around) {
    static const std::string others[] = {"x", "\"1\"\"2\"", "1e400", "99999999999999999999", "a\"b", "\xff", "\"open"};
    static const std::string texts[] = {"",
                                        "plain",
                                        "\"quoted, with\na line\"",
                                        "\"\"\"\"",
                                        "\"a \"\"word\"\" of some length, and more than sixteen bytes\"",
                                        "caf\xc3\xa9",
                                        "\"\"",
                                        "x y"};
    static const std::string truths[] = {"true", "False",  "TRUE",      "0",
                                         "1",    " true ", "\"false\"", std::string("false\0", 6)};
    if (odd != 0 && random() % odd == 0) return others[random() % std::size(others)];
    const auto digits = [&](unsigned most) {
        std::string out;
        for (unsigned k = 0, count = 1 + random() % most; k < count; ++k) out += static_cast<char>('0' + random() % 10);
        return out;
    };
    if (kind == csv::Kind::text)
        return random() % 8 != 0 ? texts[random() % std::size(texts)] : std::string(random() % 90, 'l');
    if (kind == csv::Kind::boolean) return truths[random() % std::size(truths)];
    const std::string sign = kind == csv::Kind::uint64 || random() % 4 != 0 ? "" : random() % 8 == 0 ? "+" : "-";
    std::string number = sign + digits(random() % 4 == 0 ? 18 : 9);
    if (kind == csv::Kind::float64 || kind == csv::Kind::float32) {
        if (random() % 10 == 0) return random() % 2 == 0 ? "" : "NA";
        if (random() % 4 != 0) number += "." + digits(random() % 4 == 0 ? 20 : 6);
        if (random() % 16 == 0) number += "e" + std::to_string(static_cast<int>(random() % 40) - 20);
    } else if (random() % 16 == 0) {
        number += ".0";
    }
    if (random() % around != 0) return number;
    if (random() % 4 == 0 && sign.empty()) number = "+" + number;
    return random() % 2 == 0 ? " " + number + "\t" : '"' + number + '"';
}

/// Decoding adjacent rows by column must match decoding them one at a time.
void test_rows_together() {
    std::mt19937 random(11);
    const auto pool = std::make_shared<Pool>(1 << 20);
    const csv::Kind kinds[] = {csv::Kind::int64,   csv::Kind::uint64,  csv::Kind::float64,
                               csv::Kind::float32, csv::Kind::boolean, csv::Kind::text};
    std::size_t together = 0, refused = 0;
    for (int round = 0; round < 1500; ++round) {
        const std::size_t width = 1 + random() % 6, count = 1 + random() % (round % 50 == 0 ? 4000 : 40);
        std::vector<csv::Spec> specs;
        std::vector<csv::Kind> of;
        for (std::size_t k = 0; k < width; ++k) {
            of.push_back(kinds[random() % std::size(kinds)]);
            if (random() % 5 == 0) continue; // not wanted
            specs.push_back({k, of[k], of[k] == csv::Kind::text && random() % 4 == 0, 7, "default"});
            specs.back().exact = of[k] == csv::Kind::float64 && random() % 2 == 0;
            specs.back().is_bytes = random() % 2 == 0;
        }
        if (random() % 3 == 0) std::ranges::shuffle(specs, random);
        const unsigned odd = random() % 2 == 0 ? 0 : 400, around = 1U << random() % 6;
        static const std::string ends[] = {"\n", "\r\n", "\r", "\n\n\r\n"};
        const std::string& end = ends[random() % std::size(ends)];
        std::string text;
        for (std::size_t row = 0; row < count; ++row) {
            std::string line;
            for (std::size_t k = 0; k < width; ++k)
                line += (k == 0 ? "" : ",") + random_value(random, of[k], odd, around);
            text += (line.empty() ? "\"\"" : line) + (row + 1 == count && random() % 2 == 0 ? "" : end);
        }
        static const std::vector<std::string> words[] = {{"7", "TRUE"}, {"", "7", "TRUE"}, {"", "NA"}};
        const csv::Layout layout{plain, width, csv::Words(words[std::min<std::size_t>(random() % 10, 2)])};
        const csv::Decoder decoder(layout, specs);
        const Bytes file = bytes_of(text);
        const csv::Scan found = csv::scan(file, 0, text.size(), plain, {}, true, text.size());
        std::optional<csv::Decoded> expected;
        if (!found.faulty) {
            Spans spans;
            spans.payloads = csv::gather({&file, 1}, {}, found.starts, plain);
            try {
                expected = decoder.decode(spans, pool);
            } catch (const FormatError&) { // It must be refused below.
            }
        }
        const std::size_t cut = found.starts.empty() ? 0 : random() % found.starts.size();
        const auto middle = cut == 0 ? 0 : static_cast<std::uint64_t>(found.starts[cut]);
        for (const Cpu& cpu : headrace::testing::runnable_cpus()) {
            std::vector<csv::Stretch> stretches;
            if (middle != 0) stretches.push_back({file, 0, middle});
            stretches.push_back({file, middle, text.size()});
            const auto fast = decoder.decode(stretches, found.starts.size(), pool, cpu);
            together += fast.has_value();
            refused += !fast.has_value();
            if (fast) check(expected && same(*fast, *expected, specs, count), text);
            if (odd == 0 && expected) check(fast.has_value(), text); // Nothing in it needs a closer look.
            check(!decoder.decode(stretches, found.starts.size() + 1, pool, cpu), "one row too many");
            if (found.starts.size() > 1)
                check(!decoder.decode(stretches, found.starts.size() - 1, pool, cpu), "one too few");
        }
    }
    check(together > 1000 && refused > 100, "both are tried");
    const csv::Stretch outside[] = {{bytes_of("1,2\n"), 0, 5}}, empty[] = {{bytes_of("1\n"), 1, 1}};
    const csv::Decoder one(layout(1), {{0, csv::Kind::text, false, 0, ""}});
    check(!one.decode(outside, 1, pool) && !one.decode(empty, 1, pool));
    const csv::Stretch few[] = {{bytes_of("1\n"), 0, 2}};
    check(!one.decode(few, SIZE_MAX / 16, pool), "nothing is allocated for rows that cannot be there");
}

} // namespace

int main() {
    test_rows_together();
    test_texts_against_the_plain_way();
    test_encodings();
    test_decoding();
}

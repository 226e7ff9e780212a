#include "core/json/decode.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

#include "check.hpp"
#include "json/lines.hpp"

using namespace headrace;
using headrace::testing::bytes_of;
using headrace::testing::check;
using headrace::testing::fault_of;

namespace {

const std::shared_ptr<Pool> pool = std::make_shared<Pool>(1 << 20);

json::Spec nested(std::vector<std::string> path, json::Kind kind, std::size_t depth = 0) {
    json::Spec out;
    out.path = std::move(path);
    out.kind = kind;
    out.depth = depth;
    if (kind == json::Kind::uint64) out.most = UINT64_MAX;
    out.may_miss = depth != 0 || kind == json::Kind::float64;
    if (kind == json::Kind::float64) out.fill = std::bit_cast<std::uint64_t>(std::nan(""));
    return out;
}

json::Spec spec(const std::string& key, json::Kind kind, std::size_t depth = 0) { return nested({key}, kind, depth); }

std::optional<std::vector<json::Column>> decode(const std::vector<json::Spec>& specs,
                                                const std::vector<std::string>& lines) {
    std::vector<Bytes> views;
    for (const std::string& line : lines) views.push_back(bytes_of(line));
    return json::Decoder(specs).decode(views, pool);
}

bool is_plain(const json::Spec& wanted, const std::string& line) { return decode({wanted}, {line}).has_value(); }

template <typename T> T number_at(const json::Column& column, std::size_t i) {
    return load_le<T>(column.numbers.data() + i * sizeof(T));
}

std::string text_at(const json::Column& column, std::size_t i) {
    const Bytes value = column.texts.view().at(i);
    return {reinterpret_cast<const char*>(value.data()), value.size()};
}

std::int64_t offset_at(const json::Column& column, std::size_t i, std::size_t level = 0) {
    const json::Column::Offsets& offsets = column.offsets.at(level);
    check(i < offsets.count);
    return load_le<std::int64_t>(offsets.places.data() + i * sizeof(std::int64_t));
}

/// Offsets as a list.
std::vector<std::int64_t> offsets_of(const json::Column& column, std::size_t level) {
    std::vector<std::int64_t> out;
    for (std::size_t i = 0; i < column.offsets.at(level).count; ++i) out.push_back(offset_at(column, i, level));
    return out;
}

void test_values() {
    const auto columns =
        decode({spec("i", json::Kind::int64), spec("x", json::Kind::float64), spec("b", json::Kind::boolean),
                spec("t", json::Kind::text), spec("l", json::Kind::uint64, 1)},
               {R"({"i": -5, "x": 1.5, "b": true, "t": "a\u00e9\ud83d\ude00\n", "l": [1, 18446744073709551615]})",
                R"( {"l":[],"t":"","b":false,"i":9223372036854775807,"z":{"y":[1,{}]}} )"
                "\r\n\n",
                R"({"x": null, "l": null, "t": "plain text", "b": true, "i": 0})"});
    check(columns.has_value());
    const auto& [i, x, b, t, l] = std::tie((*columns)[0], (*columns)[1], (*columns)[2], (*columns)[3], (*columns)[4]);
    check(number_at<std::int64_t>(i, 0) == -5 && number_at<std::int64_t>(i, 1) == INT64_MAX);
    check(number_at<double>(x, 0) == 1.5 && std::isnan(number_at<double>(x, 1)) && std::isnan(number_at<double>(x, 2)));
    check(number_at<std::uint8_t>(b, 0) == 1 && number_at<std::uint8_t>(b, 1) == 0);
    check(text_at(t, 0) == "a\xc3\xa9\xf0\x9f\x98\x80\n" && text_at(t, 1).empty() && text_at(t, 2) == "plain text");
    check(l.values == 2 && number_at<std::uint64_t>(l, 1) == UINT64_MAX);
    check(offset_at(l, 0) == 0 && offset_at(l, 1) == 2 && offset_at(l, 2) == 2 && offset_at(l, 3) == 2);
}

void test_lines_that_are_not_plain() {
    const json::Spec whole = spec("i", json::Kind::int64), real = spec("x", json::Kind::float64);
    check(is_plain(whole, R"({"i":1})") && is_plain(real, R"({"x":1})") && is_plain(real, "{}"));
    for (const char* line : {"",
                             "{",
                             "{}",
                             "[]",
                             R"({"i")",
                             R"({"i":)",
                             R"({"i":1)",
                             R"({"i":1,)",
                             R"({"i":1,})",
                             R"({"i":1}})",
                             R"({"i":1}x)",
                             R"({"i":01})",
                             R"({"i":-})",
                             R"({"i":+1})",
                             R"({"i":1.0})",
                             R"({"i":1e1})",
                             R"({"i":9223372036854775808})",
                             R"({"i":null})",
                             R"({"i":"1"})",
                             R"({"i":1,"i":1})",
                             R"({"\u0069":1})",
                             "{\"i\":\n1}",
                             "{\"i\":1,\"\xff\":1}",
                             R"({"i":1,"z":"\ud800"})",
                             R"({"i":1,"z":"\q"})",
                             R"({"i":1,"z":"\)",
                             R"({"i":1,"z":"\u00)",
                             "{\"i\":1,\"z\":\"\x1f\"}",
                             R"({"i":1,"z":[1,]})",
                             R"({"i":1,"z":{1:2}})",
                             R"({"i":1,"z":{"a"}})",
                             R"({"i":1,"z":tru})",
                             R"({"i":1,"z":1.})",
                             R"({"i":1,"z":.1})",
                             R"({"i":1,"z":1e})",
                             R"({"i":1,"z":00})"})
        check(!is_plain(whole, line), line);
    for (const char* line : {R"({"x":1e400})", R"({"x":1e-400})", R"({"x":4.9e-324})", R"({"x":NaN})", R"({"x":0.e1})",
                             R"({"x":1e1234567})", R"({"x":"1"})", R"({"x":[1]})"})
        check(!is_plain(real, line), line);
    json::Spec exact = real;
    exact.exact = true;
    for (const char* line :
         {R"({"x":9007199254740993})", R"({"x":-9007199254740993})", R"({"x":123456789012345678901})"})
        check(!is_plain(exact, line) && is_plain(real, line), line);
    for (const char* line : {R"({"x":9007199254740992})", R"({"x":9007199254740993.0})", R"({"x":1e300})"})
        check(is_plain(exact, line), line);
    json::Spec small = whole;
    small.least = -128;
    small.most = 127;
    check(is_plain(small, R"({"i":-128})") && is_plain(small, R"({"i":127})"));
    check(!is_plain(small, R"({"i":-129})") && !is_plain(small, R"({"i":128})"));
    check(!is_plain(spec("t", json::Kind::text), "{\"t\":\"\xc3\"}"));
    check(!is_plain(spec("t", json::Kind::text, 1), "{\"t\":[\"\xc3\",\"\xa9\"]}"), "each value is text by itself");
    check(!is_plain(spec("u", json::Kind::uint64), R"({"u":-1})"));
    check(is_plain(spec("u", json::Kind::uint64), R"({"u":-0})"));
    check(fault_of([&] { json::Decoder({whole, whole}); }).fault == Fault::range);
}

void test_nesting() {
    using Places = std::vector<std::int64_t>;
    const auto columns = decode({nested({"p", "x"}, json::Kind::float64), nested({"p", "q", "t"}, json::Kind::text, 1),
                                 spec("m", json::Kind::int64, 2), spec("d", json::Kind::int64, 3)},
                                {R"({"p": {"x": 1.5, "q": {"t": ["a", "b"], "z": {"x": 1}}}, "m": [[1, 2], [], [3]]})",
                                 R"({"m": [], "d": [[[1], [2, 3]], []], "p": null, "x": 4})",
                                 R"({"d": [[]], "m": [[4]], "p": {"q": {"t": []}, "y": {"t": 7}}})", R"({"p": {}})"});
    check(columns.has_value());
    const auto& [x, t, m, d] = std::tie((*columns)[0], (*columns)[1], (*columns)[2], (*columns)[3]);
    check(number_at<double>(x, 0) == 1.5 && std::isnan(number_at<double>(x, 1)) && std::isnan(number_at<double>(x, 3)));
    check(t.values == 2 && text_at(t, 1) == "b" && offsets_of(t, 0) == Places{0, 2, 2, 2, 2});
    check(m.values == 4 && offsets_of(m, 0) == Places{0, 3, 3, 4, 4} && offsets_of(m, 1) == Places{0, 2, 2, 3, 4});
    check(number_at<std::int64_t>(m, 3) == 4 && d.values == 3);
    check(offsets_of(d, 0) == Places{0, 0, 2, 3, 3} && offsets_of(d, 1) == Places{0, 2, 2, 2});
    check(offsets_of(d, 2) == Places{0, 1, 3});
    const json::Spec inner = nested({"p", "i"}, json::Kind::int64), two = spec("m", json::Kind::int64, 2);
    check(is_plain(inner, R"({"p":{"i":1}})") && is_plain(two, R"({"m":[[1]]})"));
    for (const char* line :
         {R"({"p":{}})", R"({"p":null})", R"({"p":1})", R"({"p":[{"i":1}]})", R"({"p":{"i":1},"p":{}})", R"({"i":1})",
          R"({"p":{"i":1,"i":2}})", R"({"p":{"i":{}}})", R"({"p":{"i":1})", R"({"p":{"i":1},"p":null})"})
        check(!is_plain(inner, line), line);
    for (const char* line : {R"({"m":[1]})", R"({"m":[[[1]]]})", R"({"m":[null]})", R"({"m":[[null]]})",
                             R"({"m":[[1],2]})", R"({"m":[[1]})", R"({"m":[[1]]]})"})
        check(!is_plain(two, line), line);
    const auto is_refused = [](const std::vector<json::Spec>& specs) {
        return fault_of([&] { json::Decoder made{specs}; }).fault == Fault::range;
    };
    const json::Spec outer = spec("p", json::Kind::int64);
    check(is_refused({inner, outer}) && is_refused({outer, inner}) && is_refused({inner, inner}));
    check(is_refused({nested({}, json::Kind::int64)}));
}

void test_missing_values() {
    json::Spec whole = spec("i", json::Kind::int64), text = spec("t", json::Kind::text),
               truth = spec("b", json::Kind::boolean);
    whole.may_miss = text.may_miss = truth.may_miss = true;
    whole.fill = static_cast<std::uint64_t>(-7);
    text.words = "none";
    truth.fill = 1;
    const auto columns =
        decode({whole, text, truth}, {R"({"i":1,"t":"a","b":false})", R"({"i":null,"b":null})", R"({"t":null})"});
    check(columns.has_value());
    const auto& [i, t, b] = std::tie((*columns)[0], (*columns)[1], (*columns)[2]);
    check(number_at<std::int64_t>(i, 0) == 1 && number_at<std::int64_t>(i, 1) == -7 &&
          number_at<std::int64_t>(i, 2) == -7);
    check(text_at(t, 0) == "a" && text_at(t, 1) == "none" && text_at(t, 2) == "none");
    check(number_at<std::uint8_t>(b, 0) == 0 && number_at<std::uint8_t>(b, 1) == 1 &&
          number_at<std::uint8_t>(b, 2) == 1);
}

void test_depth() {
    const json::Spec whole = spec("i", json::Kind::int64);
    for (const unsigned depth : {json::Decoder::most_depth, json::Decoder::most_depth + 1, 1'000'000U})
        for (const bool is_list : {true, false}) {
            std::string value;
            for (unsigned i = 0; i < depth; ++i) value += is_list ? "[" : R"({"a":)";
            value += is_list ? "" : "1";
            for (unsigned i = 0; i < depth; ++i) value += is_list ? "]" : "}";
            check(is_plain(whole, R"({"z":)" + value + R"(,"i":1})") == (depth <= json::Decoder::most_depth));
        }
}

void test_only_known_keys() {
    const std::vector<json::Spec> specs = {nested({"a"}, json::Kind::int64), nested({"o", "b"}, json::Kind::int64)};
    const json::Decoder decoder(specs, true);
    const auto is_known = [&](const std::string& line) { return decoder.decode({bytes_of(line)}, pool).has_value(); };
    check(is_known(R"({"a":1,"o":{"b":2}})"));
    for (const std::string nothing : {"null", "{}", "{ }"}) {
        check(is_known(R"({"z":)" + nothing + R"(,"a":1,"o":{"b":2}})"));
        check(is_known(R"({"a":1,"o":{"b":2,"z":)" + nothing + R"(}})"));
    }
    for (const std::string value : {"1", R"("")", "[]", "false", R"({"a":1})", "nul", "{"}) {
        check(!is_known(R"({"z":)" + value + R"(,"a":1,"o":{"b":2}})"));
        check(!is_known(R"({"a":1,"o":{"b":2,"z":)" + value + R"(}})"));
    }
}

/// A line with one changed byte is decoded or refused; bytes after it are not touched.
void test_changed_bytes() {
    std::mt19937 random(15);
    std::vector<json::Spec> specs = {spec("i", json::Kind::int64),   spec("u", json::Kind::uint64),
                                     spec("x", json::Kind::float64), spec("b", json::Kind::boolean),
                                     spec("t", json::Kind::text),    spec("l", json::Kind::int64, 1),
                                     spec("s", json::Kind::text, 1)};
    for (int round = 0; round < 300; ++round) {
        std::vector<std::string> lines;
        for (int i = 0; i < 5; ++i) lines.push_back(headrace::testing::random_line(random));
        check(decode(specs, lines).has_value(), lines[0]);
        for (int change = 0; change < 100; ++change) {
            std::vector<std::string> other = lines;
            std::string& line = other[random() % other.size()];
            const std::size_t at = random() % line.size();
            if (random() % 3 == 0) line.resize(at);
            else line[at] = static_cast<char>(random() % 2 == 0 ? random() : "\"\\{}[]:,0-e\n"[random() % 12]);
            std::vector<std::vector<char>>
                exact; // without room behind the lines, so that a sanitizer sees every byte too many
            std::vector<Bytes> views;
            for (const std::string& each : other) exact.emplace_back(each.begin(), each.end());
            for (const auto& each : exact) views.push_back(std::as_bytes(std::span(each)));
            const auto columns = json::Decoder(specs).decode(views, pool);
            if (!columns) continue;
            for (std::size_t k = 0; k < specs.size(); ++k)
                check(specs[k].depth != 0
                          ? offset_at((*columns)[k], other.size()) == static_cast<std::int64_t>((*columns)[k].values)
                          : (*columns)[k].values == other.size());
        }
    }
}

json::Spec in_list(std::vector<std::string> path, std::vector<std::size_t> lists, json::Kind kind, std::size_t depth) {
    json::Spec out = nested(std::move(path), kind, depth);
    out.lists = std::move(lists);
    out.may_miss = true;
    return out;
}

void test_lists_of_objects() {
    const std::vector<json::Spec> specs{
        in_list({"m", "role"}, {0}, json::Kind::text, 1), in_list({"m", "n"}, {0}, json::Kind::int64, 1),
        in_list({"m", "p", "tags"}, {0}, json::Kind::text, 2),
        in_list({"m", "calls", "id"}, {0, 1}, json::Kind::int64, 2), spec("i", json::Kind::int64)};
    const auto found = decode(
        specs, {R"({"i": 1, "m": [{"role": "a", "n": 5, "p": {"tags": ["x", "y"]}, "calls": [{"id": 7}, {"id": 8}]},)"
                R"( { "calls" : [ ] , "p" : { "z": 1, "tags" : [ ] }, "n": 6, "role": "b" } ]})",
                R"({"m": [], "i": 2})", R"({"m": null, "i": 3})", R"({"i": 4})",
                R"({"i": 5, "m": [{"role": "c", "n": 9, "p": {"tags": ["z"]}, "calls": [{"id": 10}]}]})"});
    check(found.has_value());
    const std::vector<std::int64_t> outer{0, 2, 2, 2, 2, 3};
    for (std::size_t k = 0; k < 4; ++k) check(offsets_of((*found)[k], 0) == outer, std::to_string(k));
    check(text_at((*found)[0], 1) == "b" && text_at((*found)[0], 2) == "c");
    check(number_at<std::int64_t>((*found)[1], 2) == 9);
    check(offsets_of((*found)[2], 1) == std::vector<std::int64_t>{0, 2, 2, 3} && text_at((*found)[2], 2) == "z");
    check(offsets_of((*found)[3], 1) == std::vector<std::int64_t>{0, 2, 2, 3});
    check(number_at<std::int64_t>((*found)[3], 2) == 10);
    check((*found)[4].values == 5 && number_at<std::int64_t>((*found)[4], 4) == 5);

    const std::string good = R"("n": 1, "p": {"tags": []}, "calls": [])";
    check(decode(specs, {R"({"i": 1, "m": [{"role": "a", )" + good + "}]}"}).has_value());
    for (const std::string& bad :
         {R"({)" + good + "}", R"({"role": null, )" + good + "}", R"({"role": "a", "role": "b", )" + good + "}",
          R"({"role": ["a"], )" + good + "}", std::string("null"), std::string("5"), std::string("[]"),
          std::string(R"({"role": "a", "p": {"tags": []}})"), std::string(R"({"role": "a")"),
          std::string(R"({"role": "a", "n": 1, "p": 5, "calls": []})"),
          std::string(R"({"role": "a", "n": 1, "p": {"tags": []}, "calls": [{}]})")}) {
        check(!decode(specs, {R"({"i": 1, "m": [)" + bad + "]}"}), bad);
        check(!decode(specs, {R"({"i": 1, "m": [{"role": "a", )" + good + "}, " + bad + "]}"}), bad);
    }
    for (const char* const lists :
         {"", R"(, "calls": null)", R"(, "p": null)", R"(, "p": {"tags": null}, "calls": [])"}) {
        const auto empty = decode(specs, {R"({"i": 1, "m": [{"role": "a", "n": 1)" + std::string(lists) + "}]}"});
        check(empty.has_value(), lists);
        for (const std::size_t k : {2U, 3U})
            check(offsets_of((*empty)[k], 0) == std::vector<std::int64_t>{0, 1} &&
                  offsets_of((*empty)[k], 1) == std::vector<std::int64_t>{0, 0});
    }
    for (const char* const bad : {R"({"i": 1, "m": {}})", R"({"i": 1, "m": 5})", R"({"i": 1, "m": [)",
                                  R"({"i": 1, "m": [{)", R"({"i": 1, "m": [], "m": []})", R"({"i": 1, "m": nul})"})
        check(!decode(specs, {bad}), bad);
    json::Spec must = specs[1];
    must.may_miss = false;
    check(!decode({specs[0], must}, {"{}"}) && decode({specs[0], specs[1]}, {"{}"}));

    using Specs = std::vector<json::Spec>;
    for (const Specs& wrong :
         {Specs{in_list({"m", "a"}, {0}, json::Kind::text, 0)}, Specs{in_list({"m"}, {0}, json::Kind::text, 1)},
          Specs{in_list({"m", "a"}, {1}, json::Kind::text, 1)},
          Specs{in_list({"m", "a", "b"}, {1, 0}, json::Kind::text, 2)},
          Specs{in_list({"m", "a"}, {0}, json::Kind::text, 1), nested({"m", "b"}, json::Kind::text)},
          Specs{in_list({"m", "a"}, {0}, json::Kind::text, 1), spec("m", json::Kind::text, 1)}})
        check(fault_of([&] { json::Decoder made{wrong}; }).fault == Fault::range);
}

/// Texts that end far before the end of their line: what follows takes no memory in their columns.
void test_long_lines() {
    constexpr std::size_t columns = 50, size = 1 << 20;
    std::vector<json::Spec> specs;
    std::string line = "{";
    for (std::size_t k = 0; k < columns; ++k) {
        specs.push_back(spec("k" + std::to_string(k), json::Kind::text));
        line += "\"k" + std::to_string(k) + R"(": "a\n", )";
    }
    specs.push_back(spec("z", json::Kind::text));
    std::string text(size, 'x'), written = text;
    text[7] = '"';
    written.replace(7, 1, R"(\")");
    line += R"("z": ")" + written + "\"}";
    const std::size_t before = pool->stats().used_bytes;
    const auto found = decode(specs, {line, line});
    check(found.has_value());
    check(pool->stats().used_bytes - before < 16 * size, std::to_string(pool->stats().used_bytes - before));
    for (std::size_t k = 0; k < columns; ++k) check(text_at((*found)[k], 1) == "a\n");
    check(text_at(found->back(), 0) == text && text_at(found->back(), 1) == text);

    for (const char* const end : {"", "\"", "\"\x01\"}", "\\", "\\q\"}"}) // no end, or one that is not plain
        check(!is_plain(spec("z", json::Kind::text), "{\"z\": \"" + std::string(size, 'x') + end));
}

} // namespace

int main() {
    test_values();
    test_long_lines();
    test_lines_that_are_not_plain();
    test_nesting();
    test_lists_of_objects();
    test_missing_values();
    test_depth();
    test_only_known_keys();
    test_changed_bytes();
}

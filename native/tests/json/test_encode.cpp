#include "core/json/encode.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "check.hpp"

using namespace headrace;
using headrace::testing::bytes_of;
using headrace::testing::check;

namespace {

std::optional<std::string> lines_of(std::span<const json::Source> sources, std::size_t rows) {
    const auto pool = std::make_shared<Pool>(0);
    const std::optional<json::Lines> lines = json::encode(sources, rows, pool);
    if (!lines) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(lines->block.data()), lines->size);
}

std::optional<std::string> lines_of(const json::Source& source, std::size_t rows) {
    return lines_of(std::span(&source, 1), rows);
}

template <typename T> Bytes raw(const std::vector<T>& values) { return std::as_bytes(std::span(values)); }

/// One text, in memory of its exact size.
std::optional<std::string> text_line(std::string_view text, json::Leaf leaf = json::Leaf::text) {
    const std::vector<char> held(text.begin(), text.end());
    const std::array<std::int64_t, 2> offsets{0, static_cast<std::int64_t>(held.size())};
    return lines_of({"\"x\"", leaf, {}, {}, {raw(held), offsets}}, 1);
}

void test_numbers() {
    const std::vector<std::int16_t> small{-32768, 0, 32767};
    check(lines_of({"\"x\"", json::Leaf::int16, {}, raw(small), {}}, 3) ==
          "{\"x\":-32768}\n{\"x\":0}\n{\"x\":32767}\n");
    const std::vector<std::uint64_t> large{UINT64_MAX};
    check(lines_of({"\"x\"", json::Leaf::uint64, {}, raw(large), {}}, 1) == "{\"x\":18446744073709551615}\n");
    const std::vector<std::int8_t> bytes{-128, 65};
    check(lines_of({"\"x\"", json::Leaf::int8, {}, raw(bytes), {}}, 2) == "{\"x\":-128}\n{\"x\":65}\n");
    const std::vector<std::uint8_t> truths{1, 0};
    check(lines_of({"\"x\"", json::Leaf::boolean, {}, raw(truths), {}}, 2) == "{\"x\":true}\n{\"x\":false}\n");
    const std::vector<double> floats{std::nan(""), -0.0, 0.1};
    check(lines_of({"\"x\"", json::Leaf::float64, {}, raw(floats), {}}, 3) ==
          "{\"x\":null}\n{\"x\":-0.0}\n{\"x\":0.1}\n");
    const std::vector<float> infinite{-std::numeric_limits<float>::infinity()};
    check(!lines_of({"\"x\"", json::Leaf::float32, {}, raw(infinite), {}}, 1));
}

std::string text_of(double value) {
    std::array<char, json::most_float> text;
    return {text.data(), json::write_float(text.data(), value)};
}

std::string text_of(float value) {
    std::array<char, json::most_float> text;
    return {text.data(), json::write_float(text.data(), value)};
}

void test_floats() {
    check(text_of(1e-4) == "0.0001" && text_of(9.9e-5) == "9.9e-05" && text_of(1e15) == "1000000000000000.0");
    check(text_of(1e16) == "1e+16" && text_of(123456.789) == "123456.789" && text_of(-12.5) == "-12.5");
    check(text_of(9007199254740991.0) == "9007199254740991.0" && text_of(5e-324) == "5e-324");
    check(text_of(0.3 + 0.6) == "0.8999999999999999" && text_of(1e22) == "1e+22");
    check(text_of(0.1F) == "0.1" && text_of(1e-4F) == "0.0001" && text_of(123456792.0F) == "123456790.0");
    check(text_of(16777216.0F) == "16777216.0" && text_of(1e-45F) == "1e-45" && text_of(3.4e38F) == "3.4e+38");
    check(text_of(-0.00025F) == "-0.00025" && text_of(1e16F) == "1e+16" && text_of(-0.0F) == "-0.0");
    std::mt19937_64 random(5);
    for (int i = 0; i < 20'000; ++i) {
        const double scale = std::pow(10.0, static_cast<double>(random() % 24) - 8);
        const double value = std::nearbyint(static_cast<double>(random() % 1'000'000'000)) / 1e3 * scale;
        check(std::strtod(text_of(value).c_str(), nullptr) == value, text_of(value));
        const auto narrow = static_cast<float>(value);
        check(std::strtof(text_of(narrow).c_str(), nullptr) == narrow, text_of(narrow));
    }
}

void test_texts() {
    check(text_line("") == "{\"x\":\"\"}\n" && text_line("[1]", json::Leaf::value) == "{\"x\":[1]}\n");
    check(text_line("a\"b\\c/\b\f\n\r\t\x01\x1f\x7f") == "{\"x\":\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"}\n");
    check(!text_line("\xff"));
    for (std::size_t size = 0; size < 100; ++size) // escapes at every place of a step
        check(text_line(std::string(size, 'p') + "\n" + std::string(100 - size, 'q')) ==
              "{\"x\":\"" + std::string(size, 'p') + "\\n" + std::string(100 - size, 'q') + "\"}\n");
    std::string escaped;
    for (std::size_t i = 0; i < 10'000; ++i) escaped += "\\u0000";
    check(text_line(std::string(10'000, '\0')) == "{\"x\":\"" + escaped + "\"}\n");
}

void test_lists() {
    const std::vector<std::int32_t> numbers{1, 2, 3, 4};
    const std::vector<std::int64_t> inner{0, 1, 1, 4}, outer{0, 2, 3};
    const std::vector<json::Lists> nested{{0, outer.data(), 2}, {0, inner.data(), 3}};
    check(lines_of({"\"x\"", json::Leaf::int32, nested, raw(numbers), {}}, 2) ==
          "{\"x\":[[1],[]]}\n{\"x\":[[2,3,4]]}\n");
    check(lines_of({"\"x\"", json::Leaf::int32, {{2, nullptr, 0}}, raw(numbers), {}}, 2) ==
          "{\"x\":[1,2]}\n{\"x\":[3,4]}\n");
    check(lines_of({"\"x\"", json::Leaf::int32, {{0, nullptr, 0}, {3, nullptr, 0}}, raw(numbers), {}}, 2) ==
          "{\"x\":[]}\n{\"x\":[]}\n");
    check(!lines_of({"\"x\"", json::Leaf::int32, {{3, nullptr, 0}}, raw(numbers), {}}, 2));
    check(!lines_of({"\"x\"", json::Leaf::int32, {{SIZE_MAX, nullptr, 0}}, raw(numbers), {}}, 1));
    for (const std::vector<std::int64_t>& bad : {std::vector<std::int64_t>{0, 5}, {-1, 2}, {3, 2}, {0, INT64_MAX}})
        check(!lines_of({"\"x\"", json::Leaf::int32, {{0, bad.data(), 1}}, raw(numbers), {}}, 1));
    check(!lines_of({"\"x\"", json::Leaf::int32, {}, raw(numbers), {}}, 5));
    std::vector<std::int32_t> many(1000, -7);
    std::string wanted = "{\"x\":[-7";
    for (std::size_t i = 1; i < many.size(); ++i) wanted += ",-7";
    check(lines_of({"\"x\"", json::Leaf::int32, {{many.size(), nullptr, 0}}, raw(many), {}}, 1) == wanted + "]}\n");
}

void test_columns() {
    const std::vector<std::uint8_t> numbers{1, 2};
    const std::array<json::Source, 2> both{json::Source{"\"a\"", json::Leaf::uint8, {}, raw(numbers), {}},
                                           json::Source{"\"b\\n\"", json::Leaf::boolean, {}, raw(numbers), {}}};
    check(lines_of(both, 2) == "{\"a\":1,\"b\\n\":true}\n{\"a\":2,\"b\\n\":true}\n");
    check(lines_of(both, 0) == "" && !lines_of(std::span<const json::Source>(), 2));
    for (const std::vector<std::int64_t>& bad : {std::vector<std::int64_t>{0, 3}, {2, 1}, {-1, 1}})
        check(!lines_of({"\"x\"", json::Leaf::text, {}, {}, {bytes_of("ab"), bad}}, 1));
}

} // namespace

int main() {
    test_numbers();
    test_floats();
    test_texts();
    test_lists();
    test_columns();
}

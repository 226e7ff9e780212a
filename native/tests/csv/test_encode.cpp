#include "core/csv/encode.hpp"

#include <cmath>

#include "check.hpp"

using namespace headrace;
using headrace::testing::check;

namespace {

const csv::Dialect plain;

void test_encoding() {
    const double numbers[2] = {1, -2.5};
    csv::Source text{csv::Values::text, 1, nullptr, {"a\"b", "c,d"}};
    const csv::Source sources[2] = {{csv::Values::float64, 1, reinterpret_cast<const std::byte*>(numbers), {}}, text};
    const std::vector<char> out = csv::encode(sources, 2, plain, "\r\n");
    check(std::string_view(out.data(), out.size()) == "1.0,\"a\"\"b\"\r\n-2.5,\"c,d\"\r\n");
    text.texts = {"", "\n"};
    const std::vector<char> alone = csv::encode({&text, 1}, 2, plain, "\n");
    check(std::string_view(alone.data(), alone.size()) == "\"\"\n\"\n\"\n");
    csv::Source pairs{csv::Values::text, 2, nullptr, {"a", "b", "ab", " a\t"}};
    pairs.quoted = {"a", "a"};
    const std::vector<char> known = csv::encode({&pairs, 1}, 2, plain, "\n");
    check(std::string_view(known.data(), known.size()) == "\"a\",b\nab,\" a\t\"\n");
}

std::string written(std::span<const csv::Source> sources, std::size_t rows, const csv::Dialect& dialect,
                    std::string_view missing = "nan") {
    const std::vector<char> text = csv::encode(sources, rows, dialect, "\n", missing);
    return {text.data(), text.size()};
}

void test_no_quotes() {
    csv::Dialect bare;
    bare.quote.reset();
    csv::Source text{csv::Values::text, 2, nullptr, {"5\" pipe", "\"", "", "a"}};
    text.quoted = {"a", "a"};
    check(written({&text, 1}, 2, bare) == "5\" pipe,\"\n,a\n");
}

void test_missing() {
    const double doubles[2] = {std::nan(""), 0.5};
    const float floats[2] = {1, -std::nanf("")};
    const csv::Source sources[2] = {{csv::Values::float64, 1, reinterpret_cast<const std::byte*>(doubles), {}},
                                    {csv::Values::float32, 1, reinterpret_cast<const std::byte*>(floats), {}}};
    check(written(sources, 2, plain) == "nan,1.0\n0.5,nan\n");
    check(written(sources, 2, plain, "") == ",1.0\n0.5,\n");
    check(written(sources, 2, plain, "a,b") == "\"a,b\",1.0\n0.5,\"a,b\"\n");
    check(written({sources, 1}, 2, plain, "") == "\"\"\n0.5\n");
}

} // namespace

int main() {
    test_encoding();
    test_no_quotes();
    test_missing();
}

#include "core/csv/encode.hpp"

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

} // namespace

int main() { test_encoding(); }

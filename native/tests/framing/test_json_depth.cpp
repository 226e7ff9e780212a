#include "core/framing/json_depth.hpp"

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

int main() {
    const auto at = [](std::string_view text, std::uint64_t most) { return json_too_deep(bytes_of(text), most); };
    check(at("", 0) == -1);
    check(at("1.5", 0) == -1);
    check(at("[]", 0) == 0);
    check(at("[]", 1) == -1);
    check(at(R"({"a":[1,{"b":2}]})", 3) == -1);
    check(at(R"({"a":[1,{"b":2}]})", 2) == 8);
    check(at("[[]][[]][[]]", 2) == -1); // siblings do not add up
    check(at(R"({"[[[[":"]]{{\"{{\\"})", 1) == -1);
    check(at(R"(["\\",[[]]])", 2) == 7);
    check(at(R"(["\\\"[[[[", []])", 2) == -1);
    check(at("]]]][[", 1) == 5);
    check(at(R"("[[[[)", 0) == -1); // an unterminated string
    check(at(R"("[[[[\)", 0) == -1);
    for (std::size_t before = 0; before < 40; ++before) { // every position of a bracket in a block
        const std::string text =
            std::string(before, ' ') + "[" + std::string(before, '1') + "{\"" + std::string(before, '[') + "\"";
        check(at(text, 2) == -1);
        check(at(text, 1) == static_cast<std::int64_t>(2 * before + 1));
        check(at(std::string(before, 'x') + "\"" + std::string(before, '\\') + "[", 0) == -1);
    }
    check(at(std::string(1 << 20, '['), 1 << 20) == -1);
    check(at(std::string(1 << 20, '['), 1000) == 1000);

    const auto odd = [](std::string_view lines) { return json_not_objects(bytes_of(lines), 3); };
    check(odd("") == -1);
    check(odd("{}\n \t{\"a\": [1, {\"null\": null}]} \r\n\n{}\n") == -1);
    check(odd(R"({"}{\"\\": "\\\"{[ null"})") == -1);
    check(odd("null") == 0);
    check(odd("{}\n null") == 4);
    check(odd("[1]") == 0);
    check(odd("{}]") == 2);
    check(odd("{} {}") == 3); // two on a line
    check(odd("{}null{}") == 2);
    check(odd("{\"a\":\n1}{\"a\":2}") == 5);
    check(odd("{\"a\n\": 1}") == 3);
    check(odd("{\"a\": 1") == 7); // no end
    check(odd("{\"a\": [[[1]]]}") == 8);
    check(odd(std::string_view("{}\0", 3)) == 2);
    check(odd("\xEF\xBB\xBF{}") == 0);
    for (std::size_t before = 0; before < 40; ++before) { // every position of an end in a block
        const std::string text = std::string(before, ' ') + "{\"" + std::string(before, '[') +
                                 "\": " + std::string(before, '1') + "}" + std::string(before, '\r');
        check(odd(text) == -1);
        check(odd(text + "\n" + text) == -1);
        check(odd(text + "null") == static_cast<std::int64_t>(text.size()));
        check(odd("{\"" + std::string(before, '\\') + "\"}") ==
              (before % 2 == 0 ? -1 : static_cast<std::int64_t>(before) + 4));
    }
}

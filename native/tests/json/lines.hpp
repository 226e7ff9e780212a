#pragma once

#include <algorithm>
#include <random>
#include <string>

namespace headrace::testing {

/// The specs that random_line fits: i (int64), u (uint64), x (float64), b (bool), t (text), l (list of int64), s (list
/// of text), by one letter each.
inline constexpr const char* keys = "iuxbtls";

/// A random line of JSON, mostly plain.
inline std::string random_line(std::mt19937& random) {
    static const std::string values[][5] = {
        {"0", "-7", "9223372036854775807", "-9223372036854775808", "123456789"},
        {"0", "18446744073709551615", "5", "99999999", "1234567890123456789"},
        {"0.5", "-1e-7", "null", "12345678901234567890123", "1.7976931348623157e308"},
        {"true", "false", "true", "false", "true"},
        {R"("")", R"("a\"b\\\n\u00e9\ud83d\ude00")", "\"caf\xc3\xa9\"", R"("0123456701234567")", R"("\/\b\f\r\t")"},
        {"[]", "[1]", "[ 1 , -2,3 ]", "null", "[1000000000000000000,2]"},
        {R"([])", R"([""])", R"(["a", "\t"])", "null", R"(["long enough to leave the first word"])"}};
    static const std::string blanks[] = {"", " ", "\t", "  "};
    const auto blank = [&] { return random() % 4 == 0 ? blanks[random() % 4] : ""; };
    std::string line = blank() + "{" + blank();
    std::string order = keys;
    if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
    for (const char key : order) {
        if (random() % 8 == 0) line += R"("other": [{"deep": [null, 1.5e3, "\u0041"]}, true, -0.0],)" + blank();
        line += '"' + std::string(1, key) + '"' + blank() + ":" + blank();
        line += values[std::string_view(keys).find(key)][random() % 5] + blank() + "," + blank();
    }
    while (line.back() != ',') line.pop_back();
    line.back() = '}';
    return line + (random() % 2 == 0 ? "\n" : " \r\n\n");
}

} // namespace headrace::testing

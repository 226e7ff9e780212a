#include "core/json/reader.hpp"

#include <optional>

#include "check.hpp"

using namespace headrace;
using headrace::testing::check;
using json::Reader;

namespace {

/// The text at the start of a line, and how much of the line it takes.
std::optional<std::string> text_in(std::string_view line) {
    const std::string held(line); // of its exact size, for the sanitizers
    Reader reader(held.data(), held.data() + held.size());
    std::string room(held.size() + Reader::text_room, '\0');
    char* const end = reader.copy_text(room.data());
    if (end == nullptr) return std::nullopt;
    std::string text(room.data(), end);
    const Reader begin(held.data(), held.data() + held.size());
    check(reader.since(begin).back() == '"');
    return text;
}

void test_texts() {
    check(text_in("\"\"") == "" && text_in("\"plain\",1") == "plain");
    check(text_in("\"a longer one, of more than eight bytes\"}") == "a longer one, of more than eight bytes");
    check(text_in(R"("\"\\\/\b\f\n\r\t")") == "\"\\/\b\f\n\r\t");
    check(text_in(R"("caf\u00e9 \u6771\u4EAC \ud83d\ude00!")") == "café 東京 😀!");
    check(text_in(R"("12345678\u0041")") == "12345678A" && text_in(R"("1234567\n")") == "1234567\n");
    for (const std::string_view bad :
         {"", "x", "\"", "\"open", "\"a\nb\"", R"("\x")", R"("\)", R"("\u12)", R"("\u12g4")", R"("\u0000")",
          R"("\ud83d")", R"("\ud83d\n0000")", R"("\ud83d\u0041")", R"("\ude00")", R"("\ud83d\ude0)",
          "\"a lot of plain text\\"})
        check(!text_in(bad), std::string(bad));
    for (std::size_t size = 0; size < 40; ++size)
        for (const std::string_view after : {"", "\\n", "\\u00e9\\u00e9", "\x01"}) {
            const std::string plain(size, 'p');
            const auto found = text_in('"' + plain + std::string(after) + "tail\",2");
            if (after == "\x01") check(!found);
            else check(found == plain + (after.empty() ? "" : after == "\\n" ? "\n" : "éé") + "tail");
        }
}

void test_numbers() {
    const std::string_view line = "-12.5e2,007";
    Reader reader(line.data(), line.data() + line.size());
    json::Number number;
    check(reader.number(number) && number.negative && number.mantissa == 125 && number.exponent == 1 && !number.whole);
    bool ended = true;
    check(reader.next(']', ended) && !ended && !reader.number(number), "a leading zero");
}

void test_skipping() {
    std::string room;
    for (const std::string_view good : {"[1,{\"a\":[null,true]},\"x\\n\"]", "{}", "[]", "\"t\"", "-1.5", "false"}) {
        Reader reader(good.data(), good.data() + good.size());
        check(reader.skip_value(5, room) && reader.done(), std::string(good));
    }
    for (const std::string_view bad : {"[1", "{1:2}", "[[[[[[]]]]]]", "\"\\x\"", "nul", "[1 2]"}) {
        Reader reader(bad.data(), bad.data() + bad.size());
        check(!reader.skip_value(5, room), std::string(bad));
    }
}

} // namespace

int main() {
    test_texts();
    test_numbers();
    test_skipping();
}

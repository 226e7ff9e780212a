#include "core/framing/lines.hpp"

#include <algorithm>
#include <random>
#include <string>

#include "base/cpus.hpp"
#include "check.hpp"

using namespace headrace;
using headrace::testing::bytes_of;
using headrace::testing::check;

namespace {

/// The starts of all lines that are not blank, the slow way.
std::vector<std::int64_t> plain_starts(const std::string& text) {
    std::vector<std::int64_t> out;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t found = text.find('\n', at);
        const std::size_t end = found == std::string::npos ? text.size() : found;
        const std::size_t begin = at == 0 && text.starts_with("\xef\xbb\xbf") ? 3 : at;
        if (begin < end && text.substr(begin, end - begin).find_first_not_of(" \t\r") != std::string::npos)
            out.push_back(static_cast<std::int64_t>(begin));
        at = end + 1;
    }
    return out;
}

void test_against_the_plain_way() {
    std::mt19937 random(2);
    static const std::string lines[] = {"", " ", "\t\r", "{}", " {}", "{\"a\": 1}\r", "\xef\xbb\xbf", "x"};
    for (int round = 0; round < 500; ++round) {
        std::string text = round % 5 == 0 ? "\xef\xbb\xbf" : "";
        for (std::size_t i = random() % 60; i > 0; --i)
            text +=
                (random() % 9 == 0 ? std::string(random() % 200, random() % 2 == 0 ? 'y' : ' ') : lines[random() % 8]) +
                "\n";
        if (!text.empty() && random() % 2 == 0) text.pop_back();
        const std::vector<std::int64_t> wanted = plain_starts(text);
        for (const Cpu& cpu : headrace::testing::runnable_cpus()) {
            check(lines::scan(bytes_of(text), 0, text.size(), cpu).starts == wanted, text);
            std::vector<std::int64_t> joined;
            for (std::uint64_t at = 0; at < text.size();) {
                const std::uint64_t stop = std::min<std::uint64_t>(at + 1 + random() % 100, text.size());
                const Scan part = lines::scan(bytes_of(text), at, stop, cpu);
                for (const std::int64_t start : part.starts) // After a byte order mark, a line begins at 3.
                    check(static_cast<std::uint64_t>(start) < std::max<std::uint64_t>(stop, at == 0 ? 4 : 0));
                joined.insert(joined.end(), part.starts.begin(), part.starts.end());
                check(part.next >= stop);
                at = part.next;
            }
            check(joined == wanted, text);
        }
        for (int i = 0; i < 20; ++i) {
            const std::uint64_t at = 1 + random() % (text.size() + 3);
            const auto next = std::find_if(wanted.begin(), wanted.end(),
                                           [&](std::int64_t start) { return static_cast<std::uint64_t>(start) >= at; });
            check(lines::find(bytes_of(text), at) ==
                          (next == wanted.end() ? text.size() : static_cast<std::uint64_t>(*next)) ||
                      (next != wanted.end() && *next == 3),
                  text);
        }
    }
}

void test_edges() {
    check(lines::scan({}, 0, 0).starts.empty() && lines::find({}, 0) == 0 && lines::find({}, 5) == 0);
    check(lines::find(bytes_of("\n \na"), 0) == 3 && lines::find(bytes_of("ab\ncd"), 1) == 3);
    check(lines::find(bytes_of("ab\ncd"), 3) == 3 && lines::find(bytes_of("ab\n"), 1) == 3);
    check(lines::scan(bytes_of("ab\ncd"), 9, 20).starts.empty());
}

} // namespace

int main() {
    test_against_the_plain_way();
    test_edges();
}

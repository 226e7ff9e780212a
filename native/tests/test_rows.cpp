#include "core/rows.hpp"

#include "check.hpp"

using namespace penstock;
using namespace penstock::testing;

int main() {
    const std::string_view rows = "aabbccddee";
    const auto take = [rows](std::vector<std::int64_t> indices) {
        std::string out(indices.size() * 2, '?');
        take_rows(bytes_of(rows), 2, indices, reinterpret_cast<std::byte*>(out.data()));
        return out;
    };
    check(take({0, 1, 2, 3, 4}) == rows);
    check(take({4, 0, 1, 1, 3}) == "eeaabbbbdd");
    check(take({}).empty());
    for (const std::int64_t bad : {std::int64_t{5}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
        std::string out(4, '?');
        const std::int64_t indices[] = {1, bad};
        const FormatError error = fault_of([&] { take_rows(bytes_of(rows), 2, indices, reinterpret_cast<std::byte*>(out.data())); });
        check(error.fault == Fault::range && error.record == 1 && out == "????"); // nothing written
    }
    take_rows({}, 0, std::vector<std::int64_t>{0, 7}, nullptr); // rows of no bytes
}

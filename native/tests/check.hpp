#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/cursor.hpp"

namespace headrace::testing {

/// Ends the test at the caller's location unless `good`.
inline void check(bool good, std::string_view what = "", std::source_location at = std::source_location::current()) {
    if (good) return;
    std::fprintf(stderr, "%s:%u: check failed %.*s\n", at.file_name(), static_cast<unsigned>(at.line()),
                 static_cast<int>(what.size()), what.data());
    std::exit(1);
}

/// Returns the fault that `act` throws. Ends the test if it throws none.
template <typename Act> FormatError fault_of(Act&& act, std::source_location at = std::source_location::current()) {
    try {
        act();
    } catch (const FormatError& error) {
        return error;
    }
    check(false, "(nothing was thrown)", at);
    return FormatError(Fault::truncated, 0);
}

inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline Bytes bytes_of(const std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }

/// Bytes from hexadecimal digits. Ignores blanks.
inline std::vector<std::byte> from_hex(std::string_view digits) {
    std::vector<std::byte> out;
    std::string pair;
    for (const char digit : digits) {
        if (digit == ' ' || digit == '\n') continue;
        pair.push_back(digit);
        if (pair.size() < 2) continue;
        out.push_back(static_cast<std::byte>(std::stoi(pair, nullptr, 16)));
        pair.clear();
    }
    return out;
}

} // namespace headrace::testing
